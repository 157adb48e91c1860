package snapshot

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ribwarp/ribwarp/rib"
)

// announce has a peer of table default announce one route of its own.
func (s *service) announce(t testing.TB, peer string) {
	t.Helper()
	i := byte(slices.IndexFunc(somePeers, func(c rib.PeerConfig) bool { return c.Name == peer }))
	s.tables["default"].peers[peer].Apply(rib.Update{Reach: []rib.NLRI{{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, i}), 16)}}})
	s.publish(t)
}

func TestSaverSavesAtEveryInterval(t *testing.T) {
	path := filepath.Join(t.TempDir(), "saved")
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, []string{"default"}, somePeers...)
		saver, _ := s.restored(t, path)
		ctx, cancel := context.WithCancel(t.Context())
		go saver.Run(ctx)
		for i, peer := range []string{"a", "list", "dump"} {
			s.announce(t, peer)
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			saved := must[*Saved](t)(Load(path))
			if got := saved.Tables[0].V4; got != i+1 {
				t.Errorf("interval %d: %d routes saved", i, got)
			}
			if !saved.Created.Equal(time.Now()) || !saver.Stats().LastSaved.Equal(saved.Created) {
				t.Errorf("interval %d: saved at %v, it is %v", i, saved.Created, time.Now())
			}
		}
		cancel()
		synctest.Wait()
		if n := saver.Stats().Saves; n != 3 {
			t.Errorf("%d saves", n)
		}
	})
}

// What comes behind the last save, as the withdrawals at the end of a service, is not saved, though Run has
// an interval left.
func TestLastSaveIsTheLast(t *testing.T) {
	path := filepath.Join(t.TempDir(), "saved")
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, []string{"default"}, somePeers...)
		saver, _ := s.restored(t, path)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go saver.Run(ctx)
		s.announce(t, "a")
		if err := saver.SaveLast(); err != nil {
			t.Fatal(err)
		}
		s.announce(t, "list")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if err := saver.SaveNow(); err != nil {
			t.Fatal(err)
		}
		if got, saves := must[*Saved](t)(Load(path)).Tables[0].V4, saver.Stats().Saves; got != 1 || saves != 1 {
			t.Errorf("%d routes saved in %d saves", got, saves)
		}
	})
}

// A save that fails leaves the file and is tried again.
func TestSaverTriesAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "folder")
	path := filepath.Join(dir, "saved")
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, []string{"default"}, somePeers...)
		saver, _ := s.restored(t, path)
		s.announce(t, "a")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go saver.Run(ctx)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if st := saver.Stats(); st.Failures != 1 || st.Saves != 0 || st.LastError == "" {
			t.Errorf("without a folder: %+v", st)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if st := saver.Stats(); st.Failures != 1 || st.Saves != 1 || st.LastError != "" || st.LastRoutes != 1 {
			t.Errorf("with a folder: %+v", st)
		}
		info := must[fs.FileInfo](t)(os.Stat(path))
		if info.Mode() != 0o600 || info.Size() != saver.Stats().LastBytes {
			t.Errorf("mode %v, %d bytes, stats %+v", info.Mode(), info.Size(), saver.Stats())
		}
	})
}

// The file of before is there until there is something to put in its place.
func TestNothingIsSavedTooEarly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "saved")
	s := newService(t, []string{"default"}, somePeers...)
	first, _ := s.restored(t, path)
	save(t, first) // no generation yet
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a file without a generation: %v", err)
	}
	s.announce(t, "a")
	save(t, first)

	later := newService(t, []string{"default"}, somePeers...)
	saver := later.saver(path)
	later.publish(t)
	save(t, saver) // not restored yet
	if got := must[*Saved](t)(Load(path)).Tables[0].V4; got != 1 {
		t.Errorf("%d routes in the file of before", got)
	}
	if _, err := saver.Restore(t.Context(), later.find); err != nil {
		t.Fatal(err)
	}
	later.announce(t, "list")
	save(t, saver)
	if got := must[*Saved](t)(Load(path)).Tables[0].V4; got != 2 {
		t.Errorf("%d routes saved after a restart, want 2", got)
	}
}

// A file that cannot be used is refused, the service starts empty, and saves over it; not over one
// that was never a saved generation.
func TestRefusedFiles(t *testing.T) {
	for _, c := range []struct {
		name    string
		content []byte
		want    error
		stays   bool
	}{
		{"damaged", smallFile(t)[:100], ErrDamaged, false},
		{"empty", nil, ErrDamaged, false},
		{"newer", func() []byte { b := smallFile(t); b[len(magic)]++; return reseal(b) }(), ErrVersion, false},
		{"foreign", []byte("router bgp 64500\n"), ErrForeign, true},
		{"short and foreign", []byte("x"), ErrForeign, true},
	} {
		path := filepath.Join(t.TempDir(), "saved")
		if err := os.WriteFile(path, c.content, 0o600); err != nil {
			t.Fatal(err)
		}
		s := newService(t, []string{"default"}, somePeers...)
		saver := s.saver(path)
		if _, err := saver.Restore(t.Context(), s.find); !errors.Is(err, c.want) {
			t.Errorf("%s: restore: %v, want %v", c.name, err, c.want)
		}
		if saver.Stats().Refused == "" {
			t.Errorf("%s: the statistics do not say why", c.name)
		}
		s.announce(t, "a")
		err := saver.SaveNow()
		if c.stays {
			if !errors.Is(err, ErrForeign) || string(must[[]byte](t)(os.ReadFile(path))) != string(c.content) {
				t.Errorf("%s: save: %v, the file must stay", c.name, err)
			}
		} else if err != nil || must[*Saved](t)(Load(path)).Tables[0].V4 != 1 {
			t.Errorf("%s: save: %v", c.name, err)
		}
		if left := must[[]os.DirEntry](t)(os.ReadDir(filepath.Dir(path))); len(left) != 1 {
			t.Errorf("%s: left behind: %v", c.name, left)
		}
	}
}

// Restored routes are given up after StaleTime, but not those that another had since.
func TestRestoredRoutesAreGivenUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "saved")
	synctest.Test(t, func(t *testing.T) {
		before := newService(t, []string{"default"}, somePeers...)
		first, _ := before.restored(t, path)
		for _, p := range somePeers {
			before.announce(t, p.Name)
		}
		save(t, first)

		s := newService(t, []string{"default"}, somePeers...)
		saver, r := s.restored(t, path)
		if r.Routes[Given] != len(somePeers) || len(s.routes(false)) != len(somePeers) {
			t.Fatalf("restored %v, visible %v", r.Routes, s.routes(false))
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go saver.Run(ctx)
		time.Sleep(time.Minute)
		peers := s.tables["default"].peers
		// The mirrored peer comes back and is lost again: its routes are of now. The dump is being
		// read and never ends. The list does not come.
		mirrored := peers["router/192.0.2.9"]
		mirrored.Up(rib.Session{IPv4: true, KeepIPv4: true})
		mirrored.Apply(rib.Update{Reach: []rib.NLRI{
			{Prefix: netip.MustParsePrefix("10.99.0.0/16")},
			{Prefix: netip.MustParsePrefix("10.0.0.0/16")}, // seen before its restored one, by whoever goes through all
		}})
		mirrored.Retain("lost")
		peers["dump"].Up(rib.Session{})
		time.Sleep(10*time.Minute - time.Second)
		synctest.Wait()
		s.publish(t)
		left := map[string]string{}
		for k, r := range s.routes(false) {
			left[k] = r.peer
		}
		want := map[string]string{
			"default 10.0.0.0/16": "a", "default 10.1.0.0/16": "b, of six", // rib/bgp's to give up
			"default 10.99.0.0/16": "router/192.0.2.9",
		}
		if len(left) != len(want) {
			t.Errorf("left: %v, want %v", left, want)
		}
		for k, peer := range want {
			if left[k] != peer {
				t.Errorf("left: %v, want %v", left, want)
			}
		}
		if n := saver.Stats().Swept; n != 2 {
			t.Errorf("%d peers swept, want 2", n)
		}
	})
}

// A source that was there before takes nothing, so there is nothing to give up.
func TestSourcesThatWereThereAreLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "saved")
	synctest.Test(t, func(t *testing.T) {
		before := newService(t, []string{"default"}, somePeers...)
		first, _ := before.restored(t, path)
		before.announce(t, "list")
		save(t, first)

		s := newService(t, []string{"default"}, somePeers...)
		s.tables["default"].peers["list"].Up(rib.Session{})
		saver, _ := s.restored(t, path)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go saver.Run(ctx)
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		if n := saver.Stats().Swept; n != 0 {
			t.Errorf("%d peers swept", n)
		}
	})
}

// Saving restored routes again makes them no younger, however often the service starts.
func TestRestartsDoNotRenew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "saved")
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, []string{"default"}, somePeers...)
		saver, _ := s.restored(t, path)
		s.announce(t, "a")
		s.announce(t, "list")
		save(t, saver)
		known := time.Now()
		for range 3 {
			time.Sleep(6 * time.Hour)
			s = newService(t, []string{"default"}, somePeers...)
			var r Restored
			if saver, r = s.restored(t, path); r.Routes != [NumFates]int{Given: 2} {
				t.Fatalf("after %v: %v", time.Since(known), r.Routes)
			}
			time.Sleep(time.Minute)
			save(t, saver)
			for _, p := range must[*Saved](t)(Load(path)).Tables[0].Peers {
				if !p.StaleSince.Equal(known) {
					t.Errorf("%s is stale since %v, want %v", p.Name, p.StaleSince, known)
				}
			}
		}
		s.tables["default"].peers["list"].Up(rib.Session{}) // read anew
		s.announce(t, "list")
		s.tables["default"].peers["list"].Loaded()
		s.publish(t)
		save(t, saver)
		time.Sleep(7 * time.Hour)
		s = newService(t, []string{"default"}, somePeers...)
		if _, r := s.restored(t, path); r.Routes != [NumFates]int{Given: 1, DroppedOld: 1} {
			t.Errorf("after %v: %v", time.Since(known), r.Routes)
		}
	})
}

// What a peer announced after a restart and lost then is as old as the loss.
func TestLossAfterRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "saved")
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, []string{"default"}, somePeers...)
		saver, _ := s.restored(t, path)
		s.announce(t, "a")
		save(t, saver)

		time.Sleep(time.Hour)
		s = newService(t, []string{"default"}, somePeers...)
		saver, _ = s.restored(t, path)
		a, keep := s.tables["default"].peers["a"], rib.Session{IPv4: true, KeepIPv4: true}
		a.Up(keep)
		s.announce(t, "a")
		a.EndOfRIB(false)
		time.Sleep(time.Hour)
		a.Retain("lost")
		lost := time.Now()
		for _, up := range []bool{false, true} {
			if up {
				a.Up(keep)
			}
			time.Sleep(time.Minute)
			s.publish(t)
			save(t, saver)
			if since := must[*Saved](t)(Load(path)).Tables[0].Peers[0].StaleSince; !since.Equal(lost) {
				t.Errorf("stale since %v, want %v (up: %v)", since, lost, up)
			}
		}
	})
}

// A save may come between the peer's End-of-RIB and the generation that is made of it: the stale
// routes of the generation are right then, and not to be dropped as too old.
func TestSaveBehindTheEndOfRIB(t *testing.T) {
	path := filepath.Join(t.TempDir(), "saved")
	s := newService(t, []string{"default"}, somePeers...)
	saver, _ := s.restored(t, path)
	s.announce(t, "a")
	save(t, saver)

	s = newService(t, []string{"default"}, somePeers...)
	saver, _ = s.restored(t, path)
	a := s.tables["default"].peers["a"]
	a.Up(rib.Session{IPv4: true, KeepIPv4: true})
	s.publish(t)
	a.Apply(rib.Update{Reach: []rib.NLRI{{Prefix: netip.MustParsePrefix("10.0.0.0/16")}}})
	a.EndOfRIB(false)
	save(t, saver)
	s = newService(t, []string{"default"}, somePeers...)
	if _, r := s.restored(t, path); r.Routes != [NumFates]int{Given: 1} {
		t.Errorf("restored %v", r.Routes)
	}
}

// What a crash left is removed; what another process writes, and other files, are not.
func TestTemporaryFilesOfACrash(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "saved")
	keep := []string{"saved.tmp", "saved.x1.tmp", "saved.123", "other.123.tmp", "saved.123.tmp.gz", "saved..tmp"}
	for _, name := range append([]string{"saved.123.tmp", "saved.4567.tmp", "saved.99.tmp"}, keep...) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	busy := must[*os.File](t)(os.Open(filepath.Join(dir, "saved.99.tmp")))
	if err := lock(busy); err != nil {
		t.Fatal(err)
	}
	newService(t, []string{"default"}).restored(t, path)
	keep = append(keep, "saved.99.tmp")
	slices.Sort(keep)
	var left []string
	for _, e := range must[[]os.DirEntry](t)(os.ReadDir(dir)) {
		left = append(left, e.Name())
	}
	if !slices.Equal(left, keep) {
		t.Errorf("left %q, want %q", left, keep)
	}
	_ = busy.Close()
}

// Saving while routes change gives one generation, whole.
func TestSavingDuringChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "saved")
	s := newService(t, []string{"default"}, somePeers...)
	saver, _ := s.restored(t, path)
	const n = 2000
	var u rib.Update
	for i := range n {
		u.Reach = append(u.Reach, rib.NLRI{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i)}), 24)})
	}
	apply := func(med uint32) {
		u.Attrs.MED, u.Attrs.HasMED = med, true
		s.tables["default"].peers["a"].Apply(u)
		if err := s.tables["default"].publisher.Flush(context.Background()); err != nil {
			t.Error(err)
		}
	}
	apply(0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for med := range uint32(100) {
			apply(1 + med)
		}
	}()
	for saves := 0; ; saves++ {
		save(t, saver)
		got := must[*Saved](t)(Load(path))
		meds := map[uint32]int{}
		for _, content := range got.Tables[0].routes {
			var b batch
			for c := (cursor{left: content}); c.more(); {
				c.batch(&b)
				meds[b.update.Attrs.MED] += len(b.update.Reach)
			}
		}
		if len(meds) != 1 {
			t.Fatalf("save %d mixes generations: %v", saves, meds)
		}
		select {
		case <-done:
			if n := s.open.Load(); n != 1 {
				t.Errorf("%d tables are open: a save holds its generation for ever", n)
			}
			return
		default:
		}
	}
}
