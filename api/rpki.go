package api

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"

	"github.com/gin-gonic/gin"

	"github.com/ribwarp/ribwarp/rib"
)

// VRPs are the validated ROA payloads at one moment. They do not change; all methods are safe for
// concurrent use.
type VRPs interface {
	// State is "valid", "invalid" or "not-found" (RFC 6811, 2.1). The origin is 0 for a route that has
	// none, whose path ends in a set.
	State(prefix netip.Prefix, origin uint32) string
	// Covering gives those whose prefix is the one asked for or around it, longest first.
	Covering(prefix netip.Prefix) []VRP
}

// VRP is a validated ROA payload: the AS may announce the prefix and what is in it, up to a length.
type VRP struct {
	Prefix    netip.Prefix `json:"prefix"`
	MaxLength uint8        `json:"max_length"`
	ASN       uint32       `json:"asn"` // 0: nobody may
}

// vrps gives what the RPKI says now, nil where nobody asks it.
func (a *API) vrps() VRPs {
	if a.deps.VRPs == nil {
		return nil
	}
	return a.deps.VRPs()
}

// rpkiState is the state of a route. Who originates it with an empty path is the own AS, which is not
// known here: as without an origin such a route is not valid.
func rpkiState(vrps VRPs, r rib.Route) string {
	var origin uint32
	if r.Path != (rib.Path{}) {
		origin, _ = r.Path.Value().ASPath.Origin()
	}
	return vrps.State(r.Prefix, origin)
}

// appendRPKI appends the field rpki of a route, null where there are no VRPs.
func appendRPKI(dst []byte, vrps VRPs, r rib.Route) []byte {
	dst = append(dst, `,"rpki":`...)
	if vrps == nil {
		return append(dst, "null"...)
	}
	return appendString(dst, rpkiState(vrps, r))
}

// appendVRPs appends those that cover a prefix as an array, null where there is no source of them.
func appendVRPs(dst []byte, vrps VRPs, p netip.Prefix) []byte {
	if vrps == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '[')
	for _, v := range vrps.Covering(p) {
		dst = append(dst, `{"prefix":"`...)
		dst = v.Prefix.AppendTo(dst)
		dst = append(dst, `","max_length":`...)
		dst = appendInt(dst, uint32(v.MaxLength))
		dst = append(dst, `,"asn":`...)
		dst = appendInt(dst, v.ASN)
		dst = append(dst, '}', ',')
	}
	return closeArray(dst)
}

// validity is the answer of /api/v1/rpki/validate.
type validity struct {
	Prefix netip.Prefix  `json:"prefix"`
	Origin uint32        `json:"origin"`
	State  string        `json:"state"`
	VRPs   []matchingVRP `json:"vrps"` // those that cover the prefix
}

type matchingVRP struct {
	VRP
	Matches bool `json:"matches"` // it allows the route
}

// rpkiValidate answers GET /api/v1/rpki/validate?prefix=P&origin=AS.
func (a *API) rpkiValidate(c *gin.Context) {
	prefix, origin, err := parseValidateQuery(c.Request.URL.RawQuery)
	if err != nil {
		a.refuse(c, http.StatusBadRequest, "%v", err)
		return
	}
	vrps := a.vrps()
	if vrps == nil {
		a.refuse(c, http.StatusNotFound, "no source of VRPs is configured: nothing is known of any route")
		return
	}
	v := validity{Prefix: prefix, Origin: origin, State: vrps.State(prefix, origin), VRPs: []matchingVRP{}}
	for _, x := range vrps.Covering(prefix) {
		v.VRPs = append(v.VRPs, matchingVRP{x, x.ASN == origin && prefix.Bits() <= int(x.MaxLength)})
	}
	a.encode(c, a.main, a.main.newest(), v)
}

func parseValidateQuery(raw string) (prefix netip.Prefix, origin uint32, err error) {
	values := url.Values{}
	err = eachParameter(raw, func(name string, given []string) error {
		if name != "prefix" && name != "origin" {
			return unknownParameter(name, nil, "prefix", "origin")
		}
		values[name] = given
		return once(name, given)
	})
	if err != nil {
		return prefix, 0, err
	}
	if prefix, err = parsePrefix(values.Get("prefix")); err != nil {
		return prefix, 0, fmt.Errorf("prefix: %w", err)
	}
	if origin, err = parseASN(values.Get("origin")); err != nil {
		return prefix, 0, fmt.Errorf("origin is %q: %w", cut(values.Get("origin"), 32), err)
	}
	return prefix, origin, nil
}
