package lpm_test

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/lpm/lpmtest"
)

// finds asks for n prefixes, some with host bits, some that are not there, one invalid, and checks the answers.
func finds(t *testing.T, tab lpm.Table, n int) {
	t.Helper()
	all := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("10.9.9.9/8"), netip.MustParsePrefix("10.0.0.0/9"), {}}
	want := []lpm.Handle{1, 2, 1, lpm.None, lpm.None}
	ps, got := make([]netip.Prefix, n), make([]lpm.Handle, n)
	for i := range ps {
		ps[i], got[i] = all[i%len(all)], 0xdead
	}
	if err := lpm.FindAll(tab, got, ps); err != nil {
		t.Fatal(err)
	}
	for i, h := range got {
		if h != want[i%len(want)] {
			t.Errorf("%d prefixes: %s is route %d, want %d", n, ps[i], h, want[i%len(want)])
		}
	}
}

func TestFindAllOfATableThatIsNoFinder(t *testing.T) {
	tab := lpmtest.Build(t, cpu(t, flavors.Options{}), lpmtest.RoutesOf("10.0.0.0/8", "2001:db8::/32"))
	defer tab.Close()
	finds(t, tab, 0)
	finds(t, tab, 20)
}

func TestFailoverFindsManyWhereTheyArePaidFor(t *testing.T) {
	f, acc, clock, _ := failover(t)
	tab := lpmtest.Build(t, f, lpmtest.RoutesOf("10.0.0.0/8", "2001:db8::/32"))
	defer tab.Close()
	asked := func(n int, want int64) {
		t.Helper()
		acc.lookups.Store(0)
		finds(t, tab, n)
		if got := acc.lookups.Load(); got != want {
			t.Errorf("%d prefixes: the accelerated table was asked %d times, want %d", n, got, want)
		}
	}
	asked(0, 0)
	asked(9, 0)
	asked(10, 1)
	if s := f.Status(); s.AcceleratedBatches != 1 || s.AcceleratedAddresses != 10 || s.BaseBatches != 2 || s.BaseAddresses != 9 {
		t.Errorf("counts %+v", s)
	}
	acc.fail(&acc.lookupError, errors.New("kernel find: launch failed"))
	asked(10, 1) // fails, and the base answers
	if s := f.Status(); s.FailedBatches != 1 || s.Degraded == "" || s.BaseAddresses != 19 {
		t.Errorf("status %+v", s)
	}
	acc.fail(&acc.lookupError, nil)
	asked(10, 0)
	clock.pass(time.Second)
	asked(10, 1)
	if s := f.Status(); s.Degraded != "" {
		t.Errorf("status %+v", s)
	}
	acc.fail(&acc.lookupError, fmt.Errorf("%w: illegal address", lpm.ErrLost))
	asked(10, 1)
	acc.fail(&acc.lookupError, nil)
	clock.pass(time.Hour)
	asked(10, 0)
}

// An accelerated table that is no Finder, or that could not be made, leaves prefixes to the base.
func TestFailoverFindsWithoutAFinder(t *testing.T) {
	f := lpm.NewFailover(cpu(t, flavors.Options{}), cpu(t, flavors.Options{}), lpm.FailoverOptions{})
	tab := lpmtest.Build(t, f, lpmtest.RoutesOf("10.0.0.0/8", "2001:db8::/32"))
	defer tab.Close()
	finds(t, tab, 20)
	if s := f.Status(); s.BaseBatches != 1 || s.AcceleratedBatches != 0 || s.Degraded != "" {
		t.Errorf("status %+v", s)
	}
	g, acc, _, _ := failover(t)
	acc.fail(&acc.buildError, lpm.ErrMemory)
	bare := lpmtest.Build(t, g, lpmtest.RoutesOf("10.0.0.0/8", "2001:db8::/32"))
	defer bare.Close()
	finds(t, bare, 20)
}
