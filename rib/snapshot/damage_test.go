package snapshot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/rib"
)

// smallFile is a file with something of everything.
func smallFile(t testing.TB) []byte {
	s := newService(t, []string{"default", "vrf"}, somePeers[:3]...)
	prefixes := func(ps ...string) (all []rib.NLRI) {
		for _, p := range ps {
			all = append(all, rib.NLRI{Prefix: netip.MustParsePrefix(p), PathID: uint32(len(all))})
		}
		return all
	}
	attrs := rib.Attrs{
		NextHop: netip.MustParseAddr("192.0.2.1"), ASPath: rib.MakeASPath(rib.Segment{Type: rib.SegmentSequence, ASNs: []uint32{64501, 300}}),
		Communities: rib.MakeCommunities(1), LargeCommunities: rib.MakeLargeCommunities([3]uint32{1, 2, 3}), ExtCommunities: rib.MakeExtCommunities([8]byte{1}),
		MED: 300, HasMED: true, OriginatorID: rib.RouterID{1, 2, 3, 4},
	}
	d := s.tables["default"].peers
	d["a"].Apply(rib.Update{Reach: prefixes("10.0.0.0/8", "0.0.0.0/0", "192.0.2.1/32", "2001:db8::/33", "::/0"), Attrs: attrs})
	d["a"].Retain("lost")
	d["b, of six"].Apply(rib.Update{Reach: prefixes("10.1.0.0/16"), Attrs: rib.Attrs{LocalPref: 5, HasLocalPref: true, OTC: 1, HasOTC: true}})
	s.tables["vrf"].peers["a"].Apply(rib.Update{Reach: prefixes("10.0.0.0/8"), Attrs: attrs})
	s.publish(t)
	return s.encode(t, time.Unix(1_800_000_000, 0))
}

// refused fails the test unless a file is refused for one of the reasons, and says why.
func refused(t *testing.T, what string, b []byte, reasons ...error) {
	t.Helper()
	s, err := decode(b)
	if err == nil {
		t.Fatalf("%s: taken: %+v", what, s)
	}
	for _, reason := range reasons {
		if errors.Is(err, reason) {
			if s != nil || len(err.Error()) <= len(reason.Error()) {
				t.Fatalf("%s: %v says no reason", what, err)
			}
			return
		}
	}
	t.Fatalf("%s: %v, want one of %v", what, err, reasons)
}

func TestEveryFlippedBitIsFound(t *testing.T) {
	good := smallFile(t)
	must[*Saved](t)(decode(good))
	for i := range good {
		for bit := range 8 {
			bad := bytes.Clone(good)
			bad[i] ^= 1 << bit
			want := ErrDamaged
			switch {
			case i < len(magic):
				want = ErrForeign
			case i < len(magic)+4:
				want = ErrVersion
			}
			refused(t, "flipped", bad, want)
		}
	}
}

func TestEveryOtherLengthIsFound(t *testing.T) {
	good := smallFile(t)
	for n := range good {
		refused(t, "cut", good[:n], ErrDamaged)
	}
	for n := 1; n < 40; n++ {
		refused(t, "zeros behind", append(bytes.Clone(good), make([]byte, n)...), ErrDamaged)
	}
	refused(t, "twice", slices.Concat(good, good), ErrDamaged)
	refused(t, "blocks twice", slices.Concat(good, good[headerSize:]), ErrDamaged)
}

// blocks takes a file apart: its header, then every block.
func blocks(b []byte) (all [][]byte) {
	all = append(all, b[:headerSize])
	for b = b[headerSize:]; len(b) > 0; {
		n := blockStart + int(binary.LittleEndian.Uint32(b)) + 4
		all = append(all, b[:n])
		b = b[n:]
	}
	return all
}

// A block that is good in itself, but lost, twice, or another's, is found.
func TestBlocksBelongTogether(t *testing.T) {
	good := blocks(smallFile(t))
	other := blocks(newService(t, []string{"x"}).publishedFile(t))
	for i := 1; i < len(good); i++ {
		refused(t, "lost", slices.Concat(slices.Delete(slices.Clone(good), i, i+1)...), ErrDamaged)
		refused(t, "twice", slices.Concat(slices.Insert(slices.Clone(good), i, good[i])...), ErrDamaged)
		for j := i + 1; j < len(good); j++ {
			swapped := slices.Clone(good)
			swapped[i], swapped[j] = swapped[j], swapped[i]
			refused(t, "swapped", slices.Concat(swapped...), ErrDamaged)
		}
		for _, b := range other[1:] {
			foreign := slices.Clone(good)
			foreign[i] = b
			refused(t, "another's", slices.Concat(foreign...), ErrDamaged)
		}
	}
	refused(t, "another header", slices.Concat(append([][]byte{other[0]}, good[1:]...)...), ErrDamaged)
}

func (s *service) publishedFile(t testing.TB) []byte {
	s.publish(t)
	return s.encode(t, time.Unix(1_700_000_000, 0))
}

// Files with right checksums whose content makes no sense.
func TestContentIsChecked(t *testing.T) {
	file := func(f func(w *writer)) []byte {
		var b bytes.Buffer
		w := newWriter(&b, time.Now())
		f(w)
		if err := w.end(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	raw := func(kind byte, content ...byte) func(w *writer) {
		return func(w *writer) {
			w.content = append(w.content, content...)
			w.block(kind)
		}
	}
	tableOf := func(v4, v6 uint64) func(w *writer) {
		return func(w *writer) {
			w.tables++
			w.routes += int(v4 + v6)
			w.string("default")
			w.uvarint(1)
			w.uvarint(v4)
			w.uvarint(v6)
			w.block(blockTable)
		}
	}
	peer := func(w *writer) {
		w.string("a")
		w.string("bgp")
		w.addr(netip.Addr{})
		w.uvarint(1)
		w.addr(netip.Addr{})
		w.content = append(w.content, make([]byte, 8)...)
		w.block(blockPeers)
	}
	routes := func(count uint64, flags byte, route ...byte) func(w *writer) {
		return func(w *writer) {
			w.uvarint(0)
			w.content = append(w.content, flags, 0, 0, 0, 0, 0, 0, 0, 0, 0) // originator, MED, LOCAL_PREF, OTC
			w.content = append(w.content, 0, 0, 0, 0, 0)                    // next hop, path, communities
			w.uvarint(count)
			w.content = append(w.content, route...)
			w.block(blockRoutes)
		}
	}
	all := func(fs ...func(w *writer)) []byte {
		return file(func(w *writer) {
			for _, f := range fs {
				f(w)
			}
		})
	}
	must[*Saved](t)(decode(all(tableOf(1, 0), peer, routes(1, 0, 8, 10))))
	must[*Saved](t)(decode(all(tableOf(0, 1), peer, routes(1, flagIPv6, 0))))
	must[*Saved](t)(decode(all()))
	most := binary.AppendUvarint(nil, 1<<64-1)
	for name, b := range map[string][]byte{
		"routes before a table":   all(routes(1, 0, 8, 10)),
		"peers before a table":    all(peer),
		"routes before peers":     all(tableOf(1, 0), routes(1, 0, 8, 10)),
		"unknown kind":            all(tableOf(1, 0), peer, routes(1, 0, 8, 10), raw(9, 1)),
		"too few routes":          all(tableOf(2, 0), peer, routes(1, 0, 8, 10)),
		"too many routes":         all(tableOf(0, 0), peer, routes(1, 0, 8, 10)),
		"the other family":        all(tableOf(0, 1), peer, routes(1, 0, 8, 10)),
		"33 bits":                 all(tableOf(1, 0), peer, routes(1, 0, 33, 1, 2, 3, 4, 5)),
		"129 bits":                all(tableOf(0, 1), peer, routes(1, flagIPv6, append([]byte{129}, make([]byte, 17)...)...)),
		"no route in a batch":     all(tableOf(0, 0), peer, routes(0, 0)),
		"absurdly many routes":    all(tableOf(1, 0), peer, routes(1<<62, 0, 8, 10)),
		"more than a batch":       all(tableOf(maxBatch+1, 0), peer, routes(maxBatch+1, 0, make([]byte, maxBatch+1)...)),
		"more than there are":     all(tableOf(2, 0), peer, routes(2, 0, 8, 10)),
		"unknown flag":            all(tableOf(1, 0), peer, routes(1, 64, 8, 10)),
		"a cut batch":             all(tableOf(1, 0), peer, raw(blockRoutes, 0, 0, 0)),
		"an absurd table name":    all(raw(blockTable, most...)),
		"an absurd peer name":     all(tableOf(0, 0), raw(blockPeers, most...)),
		"an address of 5 bytes":   all(tableOf(0, 0), raw(blockPeers, 0, 0, 5, 1, 2, 3, 4, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)),
		"an AS of 40 bits":        all(tableOf(0, 0), raw(blockPeers, 0, 0, 0, 255, 255, 255, 255, 255, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)),
		"a number without an end": all(raw(blockTable, bytes.Repeat([]byte{255}, 30)...)),
		"bytes behind a table":    all(raw(blockTable, 0, 0, 0, 0, 0)),
		"no table counted":        all(raw(blockTable, 0, 0, 0, 0)),
		"two ends":                all(raw(blockEnd, 0, 0)),
	} {
		refused(t, name, b, ErrDamaged)
	}

	// Lengths are believed up to a bound only, however long the file is said to be.
	huge := binary.LittleEndian.AppendUint32(bytes.Clone(all()[:headerSize]), maxBlock+1)
	_, err := read(bytes.NewReader(append(huge, blockTable)), 1<<40)
	if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "bytes long") {
		t.Errorf("a block of %d bytes: %v", maxBlock+1, err)
	}
}

func TestForeignFiles(t *testing.T) {
	dir := t.TempDir()
	load := func(path string, want error) {
		t.Helper()
		if _, err := Load(path); !errors.Is(err, want) || !strings.Contains(err.Error(), path) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	load(filepath.Join(dir, "none"), os.ErrNotExist)
	load(dir, ErrForeign)
	load(os.DevNull, ErrForeign)
	load(write("empty", ""), ErrDamaged)
	load(write("text", "[serve]\nlisten = \"127.0.0.1:8080\"\n"), ErrForeign)
	load(write("short", "x"), ErrForeign)
	load(write("zeros", strings.Repeat("\x00", 1000)), ErrForeign)
	newer := smallFile(t)
	newer[len(magic)]++
	load(write("newer", string(reseal(newer))), ErrVersion)
}

// Whatever is in a file, with right checksums or wrong ones, it is refused for a reason, or all
// that it says it holds can be restored and saved again.
func FuzzLoad(f *testing.F) {
	f.Add(smallFile(f))
	f.Add(newService(f, []string{"x"}).publishedFile(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, reseal(b)} {
			saved, err := decode(b)
			if err != nil {
				if !errors.Is(err, ErrForeign) && !errors.Is(err, ErrVersion) && !errors.Is(err, ErrDamaged) {
					t.Fatalf("%v is of no kind", err)
				}
				continue
			}
			s := newService(t, []string{"default", "vrf"}, somePeers...)
			want, got := 0, 0
			for _, table := range saved.Tables {
				want += table.V4 + table.V6
			}
			for _, n := range saved.Restore(s.find, 0).Routes {
				got += n
			}
			if got != want {
				t.Fatalf("%d routes restored or dropped, want %d", got, want)
			}
			s.publish(t)
			again := newService(t, s.names, somePeers...)
			must[*Saved](t)(decode(s.encode(t, saved.Created))).Restore(again.find, 0)
			again.publish(t)
			if got, want := again.routes(false), s.routes(false); len(got) != len(want) {
				t.Fatal(difference(got, want))
			}
		}
	})
}
