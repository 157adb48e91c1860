package lpm_test

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ribwarp/ribwarp/lpm"
)

// countingTable is a table that counts how often it was closed and used after that.
type countingTable struct {
	lpm.Table
	closed atomic.Int32
}

func (t *countingTable) Close() error {
	t.closed.Add(1)
	return nil
}

func generation(n uint64) (*lpm.Generation[string], *countingTable) {
	tab := &countingTable{}
	return &lpm.Generation[string]{Number: n, Table: tab}, tab
}

func TestGenerationIsFreedAfterItsLastReader(t *testing.T) {
	var p lpm.Published[string]
	if p.Acquire() != nil {
		t.Fatal("nothing published, but a generation is there")
	}
	g1, t1 := generation(1)
	p.Publish(g1)
	reader := p.Acquire()
	reader.Retain()
	g2, t2 := generation(2)
	p.Publish(g2)
	if got := p.Acquire(); got != g2 {
		t.Fatalf("newest generation is %d", got.Number)
	} else {
		got.Release()
	}
	reader.Release()
	if t1.closed.Load() != 0 {
		t.Fatal("generation 1 was freed under its reader")
	}
	reader.Release()
	if t1.closed.Load() != 1 {
		t.Fatalf("generation 1 was closed %d times after its last reader", t1.closed.Load())
	}
	p.Withdraw()
	if t2.closed.Load() != 1 || p.Acquire() != nil {
		t.Fatal("withdraw left the generation")
	}
	defer func() {
		if recover() == nil {
			t.Error("one release too many went unnoticed")
		}
	}()
	g2.Release()
}

// Readers race with a publisher: none ever holds a freed generation, and all are freed in the
// end.
func TestAcquireRacesWithPublish(t *testing.T) {
	var p lpm.Published[string]
	var tables []*countingTable
	publish := func(n uint64) {
		g, tab := generation(n)
		tables = append(tables, tab)
		p.Publish(g)
	}
	publish(1)
	var done atomic.Bool
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			last := uint64(0)
			for !done.Load() {
				g := p.Acquire()
				if g.Table.(*countingTable).closed.Load() != 0 {
					t.Error("acquired a freed generation")
				}
				if g.Number < last {
					t.Errorf("generation went back from %d to %d", last, g.Number)
				}
				last = g.Number
				g.Release()
			}
		})
	}
	for n := range uint64(20_000) {
		publish(n + 2)
	}
	done.Store(true)
	wg.Wait()
	p.Withdraw()
	for i, tab := range tables {
		if n := tab.closed.Load(); n != 1 {
			t.Fatalf("table of generation %d was closed %d times", i+1, n)
		}
	}
}

func TestAddressesAsNumbers(t *testing.T) {
	a := netip.MustParseAddr("192.0.2.1")
	if n := lpm.Addr4(a); n != 0xc0000201 || lpm.Netip4(n) != a {
		t.Errorf("%s is %x", a, n)
	}
	b := netip.MustParseAddr("2001:db8::ffff")
	if n := lpm.Addr16(b); n != (lpm.Addr6{Hi: 0x20010db8 << 32, Lo: 0xffff}) || n.Netip() != b {
		t.Errorf("%s is %x", b, n)
	}
	if (lpm.Addr6{Hi: 1}).Compare(lpm.Addr6{Lo: 1 << 63}) != 1 || (lpm.Addr6{Lo: 1}).Compare(lpm.Addr6{Lo: 2}) != -1 || (lpm.Addr6{}).Compare(lpm.Addr6{}) != 0 {
		t.Error("addresses do not compare as numbers")
	}
}

func TestRoutesAddMasks(t *testing.T) {
	var rs lpm.Routes
	rs.Add(netip.MustParsePrefix("192.0.2.99/24"), 1)
	rs.Add(netip.MustParsePrefix("2001:db8::1/32"), 2)
	if err := rs.Validate(); err != nil {
		t.Fatal(err)
	}
	if rs.Len() != 2 || rs.V4[0].Prefix().String() != "192.0.2.0/24" || rs.V6[0].Prefix().String() != "2001:db8::/32" {
		t.Errorf("routes: %v", rs)
	}
}
