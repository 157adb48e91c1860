package rpki

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/osrg/gobgp/v3/pkg/packet/rtr"
)

// Config says where VRPs come from.
type Config struct {
	// Caches are the addresses of RTR caches as HOST:PORT, the preferred one first. All are kept
	// connected, and one counts (Store).
	Caches []string `toml:"caches"`
	// Files are read (ReadFile) and count all, beside the cache.
	Files []string `toml:"files"`
	// Reread is how often is looked whether a file has changed; default 1 min.
	Reread time.Duration `toml:"reread"`
	// Refresh, Retry and Expire hold with caches of version 0; those of version 1 tell theirs.
	// Defaults 1 h, 10 min, 2 h.
	Refresh time.Duration `toml:"refresh"`
	Retry   time.Duration `toml:"retry"`
	Expire  time.Duration `toml:"expire"`
}

// withDefaults checks a configuration and fills in what it leaves open.
func (c Config) withDefaults() (Config, error) {
	for _, d := range []struct {
		name              string
		value             *time.Duration
		least, most, base time.Duration
	}{
		{"reread", &c.Reread, time.Second, 24 * time.Hour, time.Minute},
		{"refresh", &c.Refresh, time.Second, 24 * time.Hour, time.Hour},
		{"retry", &c.Retry, time.Second, 2 * time.Hour, 10 * time.Minute},
		{"expire", &c.Expire, 10 * time.Minute, 48 * time.Hour, 2 * time.Hour},
	} {
		if *d.value == 0 {
			*d.value = d.base
		}
		if *d.value < d.least || *d.value > d.most {
			return c, fmt.Errorf("rpki: %s of %v: give %v to %v", d.name, *d.value, d.least, d.most)
		}
	}
	if c.Expire < max(c.Refresh, c.Retry) {
		return c, fmt.Errorf("rpki: data expire after %v, before they are asked for again (refresh %v, retry %v)", c.Expire, c.Refresh, c.Retry)
	}
	there := map[string]bool{}
	for _, addr := range c.Caches {
		host, port, err := net.SplitHostPort(addr)
		if err != nil || host == "" || port == "" {
			return c, fmt.Errorf("rpki: cache %q: give HOST:PORT; the port of RTR is %d, many caches have 3323 or 8282", addr, rtr.RPKI_DEFAULT_PORT)
		}
		if there[addr] {
			return c, fmt.Errorf("rpki: cache %q is there twice", addr)
		}
		there[addr] = true
	}
	clear(there)
	for _, path := range c.Files {
		if path == "" {
			return c, errors.New("rpki: a file without a name")
		}
		if there[path] {
			return c, fmt.Errorf("rpki: file %q is there twice", path)
		}
		there[path] = true
	}
	return c, nil
}

// Validate says what is wrong with a configuration.
func (c Config) Validate() error {
	_, err := c.withDefaults()
	return err
}

// Run keeps the table as the sources of c have it and calls what OnChange was given, until ctx is
// done. It fails only with a bad configuration: a source that does not work is logged, shown in
// Status and tried again, and what it gave before is used until it expires. There is one Run at a
// time. What sources gave stays for the next one, as far as that has them too: to change the
// configuration, end it and start another.
func (s *Store) Run(ctx context.Context, c Config, log *slog.Logger) error {
	c, err := c.withDefaults()
	if err != nil {
		return err
	}
	var names []SourceStatus
	for _, addr := range c.Caches {
		names = append(names, SourceStatus{Name: addr, Kind: KindCache})
	}
	for _, path := range c.Files {
		names = append(names, SourceStatus{Name: path, Kind: KindFile})
	}
	var all sync.WaitGroup
	defer all.Wait()
	for _, x := range s.setSources(names) {
		all.Go(func() {
			switch x.Kind {
			case KindCache:
				newClient(x.Name, Intervals{c.Refresh, c.Retry, c.Expire}, s, x, log).run(ctx)
			case KindFile:
				s.follow(ctx, x, c.Reread, log.With("file", x.Name))
			}
		})
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.changed:
			s.notify()
		}
	}
}

// follow reads a file, and again when it has changed. One that cannot be read leaves what was
// read before.
func (s *Store) follow(ctx context.Context, x *source, every time.Duration, log *slog.Logger) {
	type version struct {
		changed time.Time
		size    int64
	}
	var have version
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for said := ""; ; {
		var now version
		info, err := os.Stat(x.Name) // before it is read: a change meanwhile is one for the next time
		if err == nil {
			now = version{info.ModTime(), info.Size()}
		}
		if err != nil || now != have {
			if err == nil {
				have, err = now, s.load(x)
			}
			if err != nil {
				s.update(x, func(x *source) { x.Connected, x.LastError = false, err.Error() })
			}
			switch {
			case err == nil:
				log.Info("VRPs read")
				said = ""
			case err.Error() != said:
				log.Warn("VRPs not read; those read before stay", "error", err)
				said = err.Error()
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// load reads a source's file.
func (s *Store) load(x *source) error {
	f, err := ReadFile(x.Name)
	if err != nil {
		return err
	}
	t, err := NewTable(f.VRPs)
	if err != nil {
		return err
	}
	s.update(x, func(x *source) {
		x.table, x.Skipped, x.Updated = t, f.Expired, time.Now()
		x.Connected, x.LastError = true, ""
	})
	return nil
}
