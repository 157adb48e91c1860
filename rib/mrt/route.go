package mrt

import (
	"errors"
	"fmt"

	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/wire"
)

// A cacheKey is the attributes of a dumped route as they stand in the file, and how to read them.
type cacheKey struct {
	bytes   string
	options wire.Options
}

// A decoded is what came of them. attrs is nil where they will not do for a route.
type decoded struct {
	attrs *rib.Attrs
	err   error // what is wrong with them, if anything is
}

// maxCache bounds the cache of attributes; a full one is emptied. Dumps are sorted by prefix,
// so most equal attributes stand close together.
const maxCache = 1 << 16

// route announces one route of a table dump. Equal attributes are decoded once.
func (l *loader) route(rec record, p *peer, n rib.NLRI, attrs []byte, twoByteAS bool) {
	o := wire.Options{TwoByteAS: twoByteAS, Dumped: wire.IPv4}
	if n.Prefix.Addr().Is6() {
		o.Dumped = wire.IPv6
	}
	d, ok := l.cache[cacheKey{string(attrs), o}] // makes no string
	if !ok {
		if len(l.cache) >= maxCache {
			clear(l.cache)
		}
		d = dumped(l.decoder(o), attrs)
		l.cache[cacheKey{string(attrs), o}] = d
	}
	if d.err != nil {
		done := "attribute left out, route kept"
		if d.attrs == nil {
			done = "route left out"
		}
		l.problem(rec, KindAttributes, fmt.Sprintf("%s from %s: %v", n.Prefix, p.rib.Name(), d.err), done)
	}
	if d.attrs != nil {
		p.announce(n, d.attrs)
		l.result.Announced++
	}
}

// dumped decodes the attributes of a dumped route. Attributes that an UPDATE must have may be
// missing: collectors dump their own routes, too.
func dumped(decoder *wire.Decoder, b []byte) decoded {
	as, err := decoder.Attributes(b)
	var damage *wire.Damage
	if errors.As(err, &damage) && damage.Verdict >= wire.TreatAsWithdraw {
		return decoded{err: err}
	}
	if as.Reach.NextHop.IsValid() && (as.Reach.Family == wire.IPv6 || !as.HasNextHop) {
		as.NextHop = as.Reach.NextHop
	}
	return decoded{&as.Attrs, err}
}

// decoder gives the file's decoder for bytes of one form.
func (l *loader) decoder(o wire.Options) *wire.Decoder {
	d := l.decoders[o]
	if d == nil {
		d = wire.NewDecoder(o)
		l.decoders[o] = d
	}
	return d
}
