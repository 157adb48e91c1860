package rpki

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pdu makes a PDU. field is what the third and fourth byte hold: session, error code or nothing.
func pdu(version, kind byte, field uint16, rest ...byte) []byte {
	b := binary.BigEndian.AppendUint16([]byte{version, kind}, field)
	return append(binary.BigEndian.AppendUint32(b, uint32(8+len(rest))), rest...)
}

func u32(values ...uint32) (b []byte) {
	for _, v := range values {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}

// prefixPDU announces (flags 1) or withdraws (0).
func prefixPDU(version byte, v VRP, flags byte) []byte {
	kind := byte(4)
	if v.Prefix.Addr().Is6() {
		kind = 6
	}
	rest := append([]byte{flags, byte(v.Prefix.Bits()), v.MaxLen, 0}, v.Prefix.Addr().AsSlice()...)
	return pdu(version, kind, 0, append(rest, u32(v.ASN)...)...)
}

// endPDU is an End of Data; with version 1 it tells refresh after 100 s, retry after 10 s and
// expiry after 1000 s.
func endPDU(version byte, session uint16, serial uint32) []byte {
	if version == 0 {
		return pdu(0, 7, session, u32(serial)...)
	}
	return pdu(version, 7, session, u32(serial, 100, 10, 1000)...)
}

func reportPDU(version byte, code uint16, inner []byte, text string) []byte {
	rest := append(u32(uint32(len(inner))), inner...)
	rest = append(append(rest, u32(uint32(len(text)))...), text...)
	return pdu(version, 10, code, rest...)
}

// answer is a whole one.
func answer(version byte, session uint16, serial uint32, pdus ...[]byte) []byte {
	b := pdu(version, 3, session)
	for _, p := range pdus {
		b = append(b, p...)
	}
	return append(b, endPDU(version, session, serial)...)
}

func announce(version byte, vrps ...VRP) (pdus [][]byte) {
	for _, v := range vrps {
		pdus = append(pdus, prefixPDU(version, v, 1))
	}
	return pdus
}

var (
	vrpA = VRP{netip.MustParsePrefix("192.0.2.0/24"), 24, 64500}
	vrpB = VRP{netip.MustParsePrefix("2001:db8::/32"), 48, 64501}
	vrpC = VRP{netip.MustParsePrefix("198.51.100.0/22"), 24, 0}
)

// A scripted cache has one script a connection; when there is none left it refuses.
type scripted struct {
	t       *testing.T
	scripts []func(*cacheConn)
	calls   []time.Time
}

// A cacheConn is the cache's end of a connection.
type cacheConn struct {
	net.Conn
	t *testing.T
}

func (s *scripted) dial(context.Context, string, string) (net.Conn, error) {
	n := len(s.calls)
	s.calls = append(s.calls, time.Now())
	if n >= len(s.scripts) {
		return nil, errors.New("refused")
	}
	router, cache := net.Pipe()
	go func() {
		defer func() { _ = cache.Close() }()
		s.scripts[n](&cacheConn{cache, s.t})
	}()
	return router, nil
}

// wants reads a PDU and compares it.
func (c *cacheConn) wants(what string, pdu []byte) {
	c.t.Helper()
	got := make([]byte, len(pdu))
	if n, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, pdu) {
		c.t.Errorf("%s: the router sends %x (%v), want %x", what, got[:n], err, pdu)
	}
}

func (c *cacheConn) wantsReset(version byte) {
	c.t.Helper()
	c.wants("Reset Query", pdu(version, 2, 0))
}

func (c *cacheConn) wantsSerial(version byte, session uint16, serial uint32) {
	c.t.Helper()
	c.wants("Serial Query", pdu(version, 1, session, u32(serial)...))
}

// wantsReport reads an Error Report about a PDU.
func (c *cacheConn) wantsReport(version byte, code uint16, about []byte, text string) {
	c.t.Helper()
	all, _ := io.ReadAll(c)
	if len(all) < 16 || all[0] != version || all[1] != 10 || binary.BigEndian.Uint16(all[2:]) != code {
		c.t.Errorf("the router sends %x, want an Error Report %d of version %d", all, code, version)
		return
	}
	if !bytes.Equal(all, reportPDU(version, code, about, string(all[16+len(about):]))) {
		c.t.Errorf("the router sends %x, want one about %x", all, about)
	}
	if !strings.Contains(string(all), text) {
		c.t.Errorf("the router sends %q, want %q in it", all, text)
	}
}

// wantsEnd waits until the router hangs up, without a word.
func (c *cacheConn) wantsEnd() {
	c.t.Helper()
	if b, err := io.ReadAll(c); len(b) > 0 || err != nil {
		c.t.Errorf("the router sends %x (%v), want nothing", b, err)
	}
}

func (c *cacheConn) sends(pdus ...[]byte) {
	for _, p := range pdus {
		_, _ = c.Write(p) // the router may have hung up: what it says tells
	}
}

// A world is a store with one cache, in a bubble where time is what the test makes it.
type world struct {
	*testing.T
	store  *Store
	client *client
	cache  *scripted
}

// inWorld runs a client against scripts, and then then.
func inWorld(t *testing.T, scripts []func(*cacheConn), then func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, store: NewStore(), cache: &scripted{t: t, scripts: scripts}}
		x := w.store.setSources([]SourceStatus{{Name: "cache", Kind: KindCache}})[0]
		w.client = newClient("cache", Intervals{time.Hour, 10 * time.Minute, 2 * time.Hour}, w.store, x, slog.New(slog.DiscardHandler))
		w.client.dial = w.cache.dial
		w.client.limit = 1000
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { w.client.run(ctx); close(done) }()
		synctest.Wait()
		then(w)
		cancel()
		<-done
	})
}

func (w *world) has(vrps ...VRP) {
	w.Helper()
	synctest.Wait()
	if got := slices.Collect(w.store.Table().All()); !slices.Equal(got, unique(vrps)) {
		w.Errorf("the table has %v, want %v", got, vrps)
	}
}

func (w *world) status() SourceStatus {
	synctest.Wait()
	return w.store.Status()[0]
}

// After a whole load the client asks for news when the cache said and when it notifies.
func TestVersion1(t *testing.T) {
	inWorld(t, []func(*cacheConn){func(c *cacheConn) {
		c.wantsReset(1)
		c.sends(pdu(2, 0, 99, u32(5)...)) // a Serial Notify of any version before the first answer is nothing
		c.sends(pdu(1, 3, 7))
		c.sends(announce(1, vrpA, vrpB)...)
		c.sends(pdu(1, 9, 0x100, make([]byte, 24+91)...)) // a router key
		c.sends(endPDU(1, 7, 11))
		start := time.Now()
		c.wantsSerial(1, 7, 11)
		if waited := time.Since(start); waited != 100*time.Second {
			c.t.Errorf("it asks again after %v", waited)
		}
		c.sends(answer(1, 7, 12, prefixPDU(1, vrpA, 0), prefixPDU(1, vrpC, 1)))
		c.sends(pdu(1, 0, 7, u32(12)...)) // nothing new
		start = time.Now()
		c.sends(pdu(1, 0, 7, u32(13)...), pdu(1, 0, 7, u32(14)...))
		c.wantsSerial(1, 7, 12)
		if waited := time.Since(start); waited != leastBetween {
			c.t.Errorf("it asks %v after a Serial Notify", waited)
		}
		c.sends(answer(1, 7, 14))
		c.wantsEnd()
	}}, func(w *world) {
		w.has(vrpA, vrpB)
		if s := w.status(); !s.Connected || !s.Used || s.VRPs != 2 || s.Version != 1 || s.Session != 7 || s.Serial != 11 || s.Expires.Sub(s.Updated) != 1000*time.Second {
			w.Errorf("status %+v", s)
		}
		time.Sleep(101 * time.Second)
		w.has(vrpB, vrpC)
		time.Sleep(10 * time.Second)
		w.has(vrpB, vrpC)
		if s := w.status(); s.Serial != 14 {
			w.Errorf("status %+v", s)
		}
	})
}

// Three ways of a cache to say that it knows version 0 only.
func TestVersion0(t *testing.T) {
	load := func(c *cacheConn) { c.sends(answer(0, 3, 1, announce(0, vrpA)...)) }
	serve := func(c *cacheConn) {
		c.wantsReset(0)
		load(c)
		c.wantsSerial(0, 3, 1)
		c.sends(answer(0, 3, 2, announce(0, vrpB)...))
		c.wantsEnd()
	}
	for name, scripts := range map[string][]func(*cacheConn){
		"it answers in version 0": {func(c *cacheConn) {
			c.wantsReset(1)
			load(c)
			c.wantsSerial(0, 3, 1)
			c.sends(answer(0, 3, 2, announce(0, vrpB)...))
			c.wantsEnd()
		}},
		"it reports an error": {func(c *cacheConn) {
			c.wantsReset(1)
			c.sends(reportPDU(0, 4, pdu(1, 2, 0), "what?"))
			c.wantsEnd()
		}, serve},
		"it hangs up": {func(c *cacheConn) { c.wantsReset(1) }, func(c *cacheConn) { c.wantsReset(1) }, serve},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, scripts, func(w *world) {
				time.Sleep(10 * time.Second)
				w.has(vrpA)
				if s := w.status(); s.Version != 0 || s.Expires.Sub(s.Updated) != 2*time.Hour {
					w.Errorf("status %+v", s)
				}
				time.Sleep(time.Hour)
				w.has(vrpA, vrpB)
			})
		})
	}
}

// Where a session cannot go on it is ended with the right Error Report, what it brought stays, and
// the next one loads all.
func TestErrors(t *testing.T) {
	one := prefixPDU(1, vrpA, 1)
	hostBits := prefixPDU(1, VRP{netip.MustParsePrefix("192.0.2.1/24"), 24, 1}, 1)
	short := prefixPDU(1, VRP{netip.MustParsePrefix("192.0.2.0/24"), 23, 1}, 1)
	wide := prefixPDU(1, VRP{netip.MustParsePrefix("192.0.2.0/24"), 33, 1}, 1)
	bits := bytes.Clone(one)
	bits[9] = 200
	huge := append([]byte{1, 4, 0, 0}, u32(0xffffffff)...)
	shortEnd := pdu(1, 7, 7, u32(12)...)
	response := pdu(1, 3, 7)
	many := bytes.Clone(response)
	for i := range uint32(1001) {
		many = append(many, prefixPDU(1, VRP{vrpA.Prefix, 24, i}, 1)...)
	}
	for _, x := range []struct {
		name  string
		sends []byte // after the query
		code  uint16
		about []byte
		text  string
	}{
		{"type that routers send", pdu(1, 2, 0), 5, pdu(1, 2, 0), "type 2"},
		{"unknown type", pdu(1, 200, 0), 5, pdu(1, 200, 0), "type 200"},
		{"length of nothing", append([]byte{1, 3, 0, 7}, u32(0)...), 0, append([]byte{1, 3, 0, 7}, u32(0)...), "0 bytes"},
		{"length too long", append([]byte{1, 3, 0, 7}, u32(9)...), 0, append([]byte{1, 3, 0, 7}, u32(9)...), "9 bytes"},
		{"huge length", append(bytes.Clone(response), huge...), 0, huge, "4294967295 bytes"},
		{"huge Error Report", append([]byte{1, 10, 0, 0}, u32(1<<30)...), 0, nil, ""},
		{"End of Data of version 0", append(bytes.Clone(response), shortEnd...), 0, shortEnd[:8], "12 bytes"},
		{"host bits", append(bytes.Clone(response), hostBits...), 0, hostBits, "host bits"},
		{"maximum length below length", append(bytes.Clone(response), short...), 0, short, "maximum length 23"},
		{"maximum length above the family's", append(bytes.Clone(response), wide...), 0, wide, "maximum length 33"},
		{"length above the family's", append(bytes.Clone(response), bits...), 0, bits, "no prefix"},
		{"prefix outside of an answer", one, 0, one, "outside"},
		{"End of Data outside of an answer", endPDU(1, 7, 12), 0, endPDU(1, 7, 12), "outside"},
		{"router key outside of an answer", pdu(1, 9, 0, make([]byte, 24)...), 0, pdu(1, 9, 0, make([]byte, 24)...), "outside"},
		{"second Cache Response", append(bytes.Clone(response), response...), 0, response, "no query"},
		{"Cache Reset in an answer", append(bytes.Clone(response), pdu(1, 8, 0)...), 0, pdu(1, 8, 0), "Cache Reset"},
		{"other session", pdu(1, 3, 8), 0, pdu(1, 3, 8), "session 8 now, not 7"},
		{"other session at the end", append(bytes.Clone(response), endPDU(1, 8, 12)...), 0, endPDU(1, 8, 12), "session 8 now, not 7"},
		{"other version", pdu(0, 3, 7), 8, pdu(0, 3, 7), "version 0 in a session of version 1"},
		{"newer version", pdu(2, 3, 7), 8, pdu(2, 3, 7), "version 2"},
		{"announced twice", answer(1, 7, 12, one), 7, one, "announced twice"},
		{"withdrawn and not there", answer(1, 7, 12, prefixPDU(1, vrpC, 0)), 6, prefixPDU(1, vrpC, 0), "not there"},
		{"too many", many, 1, nil, "more than 1000"},
		{"Error Report", reportPDU(1, 1, nil, "out of \xff order"), 0, nil, ""},
		{"Error Report with a PDU that is not in it", pdu(1, 10, 0, u32(5000, 0)...), 0, nil, ""},
		{"Error Report with a PDU beyond all", pdu(1, 10, 0, u32(0xfffffff8, 0)...), 0, nil, ""},
		{"Error Report with a text that is not in it", pdu(1, 10, 0, u32(0, 1)...), 0, nil, ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			inWorld(t, []func(*cacheConn){func(c *cacheConn) {
				c.wantsReset(1)
				c.sends(answer(1, 7, 11, announce(1, vrpA, vrpB)...))
				c.wantsSerial(1, 7, 11)
				go c.sends(x.sends)
				if x.text == "" {
					c.wantsEnd() // nobody answers an Error Report
				} else {
					c.wantsReport(1, x.code, x.about, x.text)
				}
			}, func(c *cacheConn) {
				c.wantsReset(1)
				c.sends(answer(1, 9, 1, announce(1, vrpC)...))
				c.wantsEnd()
			}}, func(w *world) {
				time.Sleep(100*time.Second + time.Second/2)
				w.has(vrpA, vrpB)
				if s := w.status(); s.Connected || s.LastError == "" || !s.Used || strings.Contains(s.LastError, "\xff") {
					w.Errorf("status %+v", s)
				}
				time.Sleep(2 * time.Second)
				w.has(vrpC)
			})
		})
	}
}

// In the first answer, too, the version is settled.
func TestNewerVersionAtOnce(t *testing.T) {
	inWorld(t, []func(*cacheConn){func(c *cacheConn) {
		c.wantsReset(1)
		c.sends(pdu(2, 3, 7))
		c.wantsReport(1, 4, pdu(2, 3, 7), "version 2")
	}}, func(w *world) { w.has() })
}

func TestCacheReset(t *testing.T) {
	inWorld(t, []func(*cacheConn){func(c *cacheConn) {
		c.wantsReset(1)
		c.sends(answer(1, 7, 11, announce(1, vrpA)...))
		c.wantsSerial(1, 7, 11)
		c.sends(pdu(1, 8, 0))
		c.wantsReset(1)
		time.Sleep(time.Second)
		c.sends(answer(1, 8, 1, announce(1, vrpB)...))
		c.wantsEnd()
	}}, func(w *world) {
		time.Sleep(100*time.Second + time.Second/2)
		w.has(vrpA)
		time.Sleep(time.Second)
		w.has(vrpB)
	})
}

// A cache that was started anew, and says so with a Serial Notify: what it had stays until the
// new data are there.
func TestSessionChange(t *testing.T) {
	inWorld(t, []func(*cacheConn){func(c *cacheConn) {
		c.wantsReset(1)
		c.sends(answer(1, 7, 11, announce(1, vrpA)...))
		time.Sleep(10 * time.Second)
		notify := pdu(1, 0, 8, u32(1)...)
		go c.sends(notify)
		c.wantsReport(1, 0, notify, "started anew")
	}, func(c *cacheConn) {
		c.wantsReset(1)
		c.sends(pdu(1, 3, 8))
		time.Sleep(10 * time.Second)
		c.sends(announce(1, vrpB)...)
		c.sends(endPDU(1, 8, 1))
		c.wantsEnd()
	}}, func(w *world) {
		time.Sleep(15 * time.Second)
		w.has(vrpA)
		time.Sleep(10 * time.Second)
		w.has(vrpB)
	})
}

// A cache without data is asked again, and for what is new since before.
func TestNoData(t *testing.T) {
	inWorld(t, []func(*cacheConn){func(c *cacheConn) {
		c.wantsReset(1)
		c.sends(answer(1, 7, 11, announce(1, vrpA)...))
		c.wantsSerial(1, 7, 11)
		c.sends(reportPDU(1, 2, nil, ""))
		c.wantsEnd()
	}, func(c *cacheConn) {
		c.wantsSerial(1, 7, 11)
		c.sends(answer(1, 7, 12, announce(1, vrpB)...))
		c.wantsEnd()
	}}, func(w *world) {
		time.Sleep(100*time.Second + time.Second/2)
		w.has(vrpA)
		if s := w.status(); s.LastError != "the cache reports: no data available" {
			w.Errorf("status %+v", s)
		}
		time.Sleep(time.Second)
		w.has(vrpA, vrpB)
	})
}

// A connection that is cut anywhere in an answer changes nothing, and the next session goes on
// from what was complete.
func TestCut(t *testing.T) {
	whole := answer(1, 7, 12, prefixPDU(1, vrpA, 0), prefixPDU(1, vrpC, 1))
	for at := range len(whole) {
		inWorld(t, []func(*cacheConn){func(c *cacheConn) {
			c.wantsReset(1)
			c.sends(answer(1, 7, 11, announce(1, vrpA, vrpB)...))
			c.wantsSerial(1, 7, 11)
			c.sends(whole[:at])
		}, func(c *cacheConn) {
			c.wantsSerial(1, 7, 11)
			c.sends(whole)
			c.wantsEnd()
		}}, func(w *world) {
			time.Sleep(100*time.Second + time.Second/2)
			w.has(vrpA, vrpB)
			time.Sleep(time.Second)
			w.has(vrpB, vrpC)
		})
	}
}

// A cache may be as slow as it likes, but not silent.
func TestSlowAndSilent(t *testing.T) {
	inWorld(t, []func(*cacheConn){func(c *cacheConn) {
		c.wantsReset(1)
		for _, b := range answer(1, 7, 11, announce(1, vrpA)...) {
			time.Sleep(answerTimeout - time.Second)
			c.sends([]byte{b})
		}
		c.wantsSerial(1, 7, 11)
		c.sends(pdu(1, 3, 7)[:5])
		start := time.Now()
		c.wantsEnd()
		if waited := time.Since(start); waited != answerTimeout {
			c.t.Errorf("it hangs up after %v", waited)
		}
	}}, func(w *world) {
		time.Sleep(time.Hour)
		w.has(vrpA)
		time.Sleep(500 * time.Second)
		if s := w.status(); !strings.Contains(s.LastError, "refused") {
			w.Errorf("status %+v", s)
		}
	})
}

// A cache that is gone is tried again and again, ever less often, until its data expire.
func TestExpiry(t *testing.T) {
	inWorld(t, []func(*cacheConn){func(c *cacheConn) {
		c.wantsReset(1)
		c.sends(answer(1, 7, 11, announce(1, vrpA)...))
	}}, func(w *world) {
		time.Sleep(1000*time.Second - time.Millisecond)
		w.has(vrpA)
		<-w.store.changed
		time.Sleep(2 * time.Millisecond)
		w.has()
		<-w.store.changed
		if s := w.status(); s.Used || s.VRPs != 0 {
			w.Errorf("status %+v", s)
		}
		var waits []time.Duration
		for i, at := range w.cache.calls[1:] {
			waits = append(waits, at.Sub(w.cache.calls[i]))
		}
		if want := []time.Duration{1, 2, 4, 8, 10, 10}; len(waits) < len(want) {
			w.Errorf("waits %v", waits)
		} else {
			for i, d := range want {
				if waits[i] != d*time.Second {
					w.Errorf("waits %v", waits)
				}
			}
		}
	})
}

// A version that was settled lower counts for its session only: a cache may have been renewed. The
// numbers of one version are none of the other.
func TestVersionIsTriedAnew(t *testing.T) {
	inWorld(t, []func(*cacheConn){func(c *cacheConn) {
		c.wantsReset(1)
	}, func(c *cacheConn) {
		c.wantsReset(1)
	}, func(c *cacheConn) {
		c.wantsReset(0)
		c.sends(answer(0, 3, 1, announce(0, vrpA)...))
	}, func(c *cacheConn) {
		c.wantsReset(1)
		c.sends(answer(1, 3, 1, announce(1, vrpB)...))
		c.wantsEnd()
	}}, func(w *world) {
		time.Sleep(firstRetry + 2*firstRetry)
		w.has(vrpA)
		time.Sleep(firstRetry)
		w.has(vrpB)
	})
}

// A cache that hangs up once, such as one that is started again, is not taken for one of version 0.
func TestHangsUpOnce(t *testing.T) {
	inWorld(t, []func(*cacheConn){func(c *cacheConn) {
		c.wantsReset(1)
	}, func(c *cacheConn) {
		c.wantsReset(1)
		c.sends(answer(1, 3, 1, announce(1, vrpA)...))
		time.Sleep(time.Minute)
	}, func(c *cacheConn) {
		c.wantsSerial(1, 3, 1)
	}, func(c *cacheConn) {
		c.wantsSerial(1, 3, 1)
		c.sends(answer(1, 3, 2, announce(1, vrpB)...))
		c.wantsEnd()
	}}, func(w *world) {
		time.Sleep(2 * time.Minute)
		w.has(vrpA, vrpB)
		if s := w.status(); s.Version != 1 {
			w.Errorf("status %+v", s)
		}
	})
}

// When it is time to ask and a PDU has begun, its rest comes first.
func TestRefreshWithinPDU(t *testing.T) {
	notify := pdu(1, 0, 7, u32(11)...)
	inWorld(t, []func(*cacheConn){func(c *cacheConn) {
		c.wantsReset(1)
		c.sends(answer(1, 7, 11, announce(1, vrpA)...))
		time.Sleep(90 * time.Second)
		c.sends(notify[:7])
		time.Sleep(20 * time.Second)
		c.sends(notify[7:])
		c.wantsSerial(1, 7, 11)
		c.sends(answer(1, 7, 12, announce(1, vrpB)...))
		c.wantsEnd()
	}}, func(w *world) {
		time.Sleep(111 * time.Second)
		w.has(vrpA, vrpB)
	})
}

// The codec is asked about no Error Report whose lengths do not add up.
func TestErrorReportLengths(t *testing.T) {
	for _, b := range [][]byte{
		pdu(1, 10, 0, u32(0, 1)...), pdu(1, 10, 0, u32(0, 0xffffffff)...), pdu(1, 10, 0, u32(1, 0)...), pdu(1, 10, 0, u32(0xffffffff, 0)...),
		pdu(1, 10, 0, u32(4, 0)...), pdu(1, 10, 0, u32(0, 0, 0)...), pdu(1, 10, 0, u32(4, 0, 5, 0)...),
	} {
		if m, err := decode(b); err == nil {
			t.Errorf("%x is read as %+v", b, m)
		}
	}
	for _, b := range [][]byte{reportPDU(1, 0, nil, ""), reportPDU(1, 0, []byte{1, 2, 3}, "text")} {
		if _, err := decode(b); err != nil {
			t.Errorf("%x: %v", b, err)
		}
	}
}

// The preferred cache counts while it is there; data of one that is gone come after those of one
// that is not.
func TestPreference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore()
		xs := s.setSources([]SourceStatus{{Name: "a", Kind: KindCache}, {Name: "b", Kind: KindCache}, {Name: "f", Kind: KindFile}})
		one := func(v VRP) *Table {
			table, err := NewTable([]VRP{v})
			if err != nil {
				t.Fatal(err)
			}
			return table
		}
		up := func(x *source) { x.Connected = true }
		down := func(x *source) { x.Connected = false }
		has := func(step string, vrps ...VRP) {
			t.Helper()
			synctest.Wait()
			if got := slices.Collect(s.Table().All()); !slices.Equal(got, unique(vrps)) {
				t.Errorf("%s: %v, want %v", step, got, vrps)
			}
		}
		s.update(xs[2], func(x *source) { x.table = one(vrpC) })
		has("file", vrpC)
		s.keep(xs[1], one(vrpB), time.Hour, up)
		has("second only", vrpB, vrpC)
		s.keep(xs[0], one(vrpA), 2*time.Hour, up)
		has("both", vrpA, vrpC)
		s.update(xs[0], down)
		has("first gone", vrpB, vrpC)
		s.update(xs[1], down)
		has("both gone", vrpA, vrpC)
		s.update(xs[1], up)
		time.Sleep(time.Hour + time.Second)
		has("second expired", vrpA, vrpC)
		s.keep(xs[0], one(vrpB), 2*time.Hour, up)
		time.Sleep(90 * time.Minute) // beyond the expiry of what it had before
		has("confirmed", vrpB, vrpC)
		s.setSources([]SourceStatus{{Name: "a", Kind: KindCache}})
		has("others configured away", vrpB)
		if got := s.Status(); len(got) != 1 || !got[0].Used || got[0].VRPs != 1 {
			t.Errorf("status %+v", got)
		}
		time.Sleep(31 * time.Minute)
		has("all expired")
	})
}

// What is the same is no change.
func TestOnChange(t *testing.T) {
	s := NewStore()
	x := s.setSources([]SourceStatus{{Name: "f", Kind: KindFile}})[0]
	calls := 0
	stop := s.OnChange(func() { calls++ })
	defer s.OnChange(func() {})()
	for i, set := range [][]VRP{{vrpA}, {vrpA}, {vrpB}} {
		table, err := NewTable(set)
		if err != nil {
			t.Fatal(err)
		}
		s.update(x, func(x *source) { x.table = table })
		select {
		case <-s.changed:
			s.notify()
		default:
			if i != 1 {
				t.Error("a change went unnoticed")
			}
		}
	}
	if calls != 2 {
		t.Errorf("%d calls, want 2", calls)
	}
	stop()
	s.notify()
	if calls != 2 {
		t.Error("a call after the end")
	}
}

// dialTo dials the same connection always.
func dialTo(c net.Conn) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) { return c, nil }
}

func mustPrefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func prefixOf(addr []byte, bits int) netip.Prefix {
	a, _ := netip.AddrFromSlice(addr)
	return netip.PrefixFrom(a, bits)
}
