package tune

import (
	"math/rand/v2"
	"slices"

	"github.com/ribwarp/ribwarp/flavors"
)

// Complete appends strides of 8, and one of what is left over, up to the key length: for the levels below
// the longest mask, which have no nodes until a longer one comes.
func Complete(width int, list []int) []int {
	list = slices.Clone(list)
	left := width
	for _, n := range list {
		left -= n
	}
	for ; left > 8; left -= 8 {
		list = append(list, 8)
	}
	if left > 0 {
		list = append(list, left)
	}
	return list
}

// Fixed are lists that people choose by hand for a key length, for comparison.
func Fixed(width int) [][]int {
	switch width {
	case 32:
		return [][]int{{8, 8, 8, 8}, {16, 8, 8}, {24, 8}, flavors.DefaultStrides4, flavors.DefaultGPUStrides4}
	case 128:
		fours := []int{16}
		for left := width - 16; left > 0; left -= 4 {
			fours = append(fours, 4)
		}
		return [][]int{Complete(width, []int{16}), fours, flavors.DefaultStrides6, flavors.DefaultGPUStrides6}
	}
	return [][]int{Complete(width, nil)}
}

// Various makes up to n different lists of all kinds, for measurements that a model is fitted to: few levels and
// many, narrow roots and wide ones. None takes more than the given bytes.
func (sh *Shape) Various(n int, bytes uint64, seed uint64) [][]int {
	r := rand.New(rand.NewPCG(seed, uint64(sh.Width)))
	end := max(sh.Longest, 1)
	var lists [][]int
	for try := 0; len(lists) < n && try < 200*n; try++ {
		widest := 3 + r.IntN(flavors.MaxStride-2)
		at, list := 0, []int(nil)
		if r.IntN(3) > 0 { // wide roots are where a good list begins
			at = min(12+r.IntN(15), end)
			list = append(list, at)
		}
		for at < end {
			s := 1 + r.IntN(min(widest, sh.Width-at))
			list, at = append(list, s), at+s
		}
		if len(list) > 20 {
			continue
		}
		list = Complete(sh.Width, list)
		if sh.Count(list).Bytes <= bytes && !slices.ContainsFunc(lists, func(o []int) bool { return slices.Equal(o, list) }) {
			lists = append(lists, list)
		}
	}
	return lists
}
