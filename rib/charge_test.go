package rib_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ribwarp/ribwarp/rib"
)

// heavy gives attributes of some bytes beside the fixed part, which differ by number.
func heavy(number uint32, bytes int) rib.Attrs {
	return rib.Attrs{HasMED: true, MED: number, Communities: rib.Communities(strings.Repeat("c", bytes))}
}

// What large attributes take is counted once for a set, from its first route to its last.
func TestAttributeBytes(t *testing.T) {
	b := newBench(t, rib.PublisherOptions{})
	other := b.add(rib.PeerConfig{Name: "other", Kind: rib.KindBGP})
	b.peer.Up(keepAll)
	few := prefixes(4)
	const fixed = 112 // of a set
	for _, step := range []struct {
		name string
		do   func()
		want int64
	}{
		{"light", func() { b.peer.Apply(rib.Update{Reach: few, Attrs: heavy(1, rib.LightAttributes-fixed)}) }, 0},
		{"one heavy", func() { b.peer.Apply(rib.Update{Reach: few[:1], Attrs: heavy(1, 4000)}) }, fixed + 4000},
		{"two routes with it", func() { b.peer.Apply(rib.Update{Reach: few[:2], Attrs: heavy(1, 4000)}) }, fixed + 4000},
		{"another one's", func() { other.Apply(rib.Update{Reach: few, Attrs: heavy(1, 4000)}) }, fixed + 4000},
		{"a second set", func() { b.peer.Apply(rib.Update{Reach: few[2:3], Attrs: heavy(2, 1000)}) }, 2*fixed + 5000},
		{"one of two withdrawn", func() { b.withdraw(few[0]) }, 2*fixed + 5000},
		{"replaced by a light one", func() { b.announce(3, few[1]) }, fixed + 1000},
		{"stale", func() { b.peer.Retain("lost") }, fixed + 1000},
		{"stale, and anew", func() {
			b.peer.Up(keepAll)
			b.peer.Apply(rib.Update{Reach: few[:1], Attrs: heavy(4, 500)})
		}, 2*fixed + 1500},
		{"swept", func() { b.peer.EndOfRIB(false) }, fixed + 500},
		{"down", func() { b.peer.Down("test") }, 0},
	} {
		step.do()
		if got := b.peer.AttributeBytes(); got != step.want || b.peer.Status().AttributeBytes != got {
			t.Errorf("%s: %d bytes, status %d, want %d", step.name, got, b.peer.Status().AttributeBytes, step.want)
		}
	}
	if got := other.AttributeBytes(); got != fixed+4000 {
		t.Errorf("the other peer: %d bytes", got)
	}
}

// Whatever comes and goes, the count is that of the sets that the peer's routes have.
func TestAttributeBytesAgreeWithOracle(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	b := newBench(t, rib.PublisherOptions{})
	b.peer.Up(keepAll)
	all := prefixes(50)
	for step := range 5_000 {
		few := all[random.IntN(len(all)):]
		few = few[:min(len(few), 1+random.IntN(5))]
		switch random.IntN(40) {
		case 0:
			b.peer.Retain("lost")
			b.peer.Up(keepAll)
		case 1:
			b.peer.EndOfRIB(false)
		case 2:
			b.peer.MarkStale(false)
		case 3:
			b.peer.Sweep(false)
		case 4, 5, 6, 7, 8, 9, 10, 11, 12:
			b.withdraw(few...)
		default:
			b.peer.Apply(rib.Update{Reach: few, Attrs: heavy(random.Uint32N(8), 100*random.IntN(6))})
		}
		sets := map[rib.Path]bool{}
		for _, path := range b.peer.Routes() {
			sets[path] = true
		}
		want := 0
		for path := range sets {
			if n := 112 + len(path.Value().Communities); n > rib.LightAttributes {
				want += n
			}
		}
		if got := b.peer.AttributeBytes(); got != int64(want) {
			t.Fatalf("step %d: %d bytes, want %d", step, got, want)
		}
	}
}
