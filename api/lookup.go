package api

import (
	"net/http"
	"net/netip"

	"github.com/gin-gonic/gin"

	"github.com/ribwarp/ribwarp/lpm"
)

// single is what one lookup works with, pooled so that it allocates nothing.
type single struct {
	counts *lookupCounts
	v4     [1]uint32
	v6     [1]lpm.Addr6
	handle [1]lpm.Handle
	out    []byte
}

// find looks one address up.
func (s *single) find(t lpm.Table, ip netip.Addr) (lpm.Handle, error) {
	if ip.Is4() {
		s.v4[0] = lpm.Addr4(ip)
		err := t.Lookup4(s.handle[:], s.v4[:])
		return s.handle[0], err
	}
	s.v6[0] = lpm.Addr16(ip)
	err := t.Lookup6(s.handle[:], s.v6[:])
	return s.handle[0], err
}

// lookupParameters are those of a lookup; a slice made for each would cost more than the lookup.
var lookupParameters = []string{tableParameter, generationParameter, fromParameter}

// lookup answers GET /api/v1/lookup/{ip}.
func (a *API) lookup(c *gin.Context) {
	if !a.hasOnly(c, lookupParameters...) {
		return
	}
	v := a.asked(c)
	if v == nil {
		return
	}
	g := a.acquire(c, v)
	if g == nil {
		return
	}
	defer g.Release()
	s := a.singles.Get().(*single)
	defer a.singles.Put(s)

	ip, err := ParseAddr(c.Param("ip"))
	if err != nil {
		s.counts.invalid(endpointSingle)
		a.refuse(c, http.StatusBadRequest, "%v", err)
		return
	}
	seen, ok := a.seenFrom(c, v, g)
	if !ok {
		return
	}
	h, err := s.find(g.Table, ip)
	if err != nil {
		a.lookupFailed(c, g.Number, err)
		return
	}
	rt := carrier(g, seen, ip, h)
	s.counts.add(endpointSingle, ip.Is4(), rt.Prefix.IsValid())
	if seen == nil && v.unchanged(c, g) {
		return
	}
	s.out = append(AppendAnswer(s.out[:0], ip, rt, g.Number), '\n')
	writeJSON(c, s.out)
}

// lookupFailed answers for a table that could not be searched.
func (a *API) lookupFailed(c *gin.Context, generation uint64, err error) {
	a.deps.Log.Error("lookup failed", "generation", generation, "error", err)
	a.refuse(c, http.StatusInternalServerError, "the table of generation %d could not be searched: %v", generation, err)
}
