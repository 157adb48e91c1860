package api

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/ribwarp/ribwarp/rib"
)

// fakeVRPs are looked through one by one.
type fakeVRPs []VRP

func (f fakeVRPs) State(prefix netip.Prefix, origin uint32) string {
	state := "not-found"
	for _, v := range f.Covering(prefix) {
		if v.ASN == origin && origin != 0 && prefix.Bits() <= int(v.MaxLength) {
			return "valid"
		}
		state = "invalid"
	}
	return state
}

func (f fakeVRPs) Covering(prefix netip.Prefix) (all []VRP) {
	for _, v := range f {
		if v.Prefix.Bits() <= prefix.Bits() && v.Prefix.Contains(prefix.Addr()) {
			all = append(all, v)
		}
	}
	return all
}

// newRPKIWorld has routes that are valid (10.0.0.0/8), invalid (10.1.0.0/16, 10.1.2.0/24) and not found.
func newRPKIWorld(t *testing.T) *world {
	vrps := fakeVRPs{{netip.MustParsePrefix("10.0.0.0/8"), 8, 64501}, {netip.MustParsePrefix("10.0.0.0/8"), 24, 64500}}
	return newWorld(t, func(d *Deps) { d.VRPs = func() VRPs { return vrps } })
}

const coveringVRPs = `"vrps":[{"prefix":"10.0.0.0/8","max_length":8,"asn":64501},{"prefix":"10.0.0.0/8","max_length":24,"asn":64500}]}`

func TestRoutesShowTheirRPKIState(t *testing.T) {
	w := newRPKIWorld(t)
	for target, want := range map[string][]string{
		"/api/v1/routes/10.0.0.0/8?include=rpki":                  {`"path_id":0,"rpki":"valid"},` + coveringVRPs},
		"/api/v1/routes/10.1.2.0/24?include=rpki,less-specifics":  {`"route":{"prefix":"10.1.2.0/24",`, `"path_id":0,"rpki":"invalid"},"less_specifics":[{"prefix":"10.1.0.0/16"`, `"rpki":"invalid"},{"prefix":"10.0.0.0/8"`, `"rpki":"valid"}],` + coveringVRPs},
		"/api/v1/routes/198.51.100.7/32?include=rpki":             {`"rpki":"not-found"},"vrps":[]}`},
		"/api/v1/routes/10.9.0.0/16?include=rpki":                 {`"route":null,` + coveringVRPs},
		"/api/v1/routes?include=rpki&within=10.0.0.0/8&limit=1":   {`"path_id":0,"rpki":"valid"}` + "\n"},
		"/api/v1/rpki/validate?prefix=10.1.0.0/16&origin=AS64500": {`{"prefix":"10.1.0.0/16","origin":64500,"state":"valid","vrps":[{"prefix":"10.0.0.0/8","max_length":8,"asn":64501,"matches":false},{"prefix":"10.0.0.0/8","max_length":24,"asn":64500,"matches":true}]}`},
		"/api/v1/rpki/validate?prefix=10.1.0.0/25&origin=64500":   {`"state":"invalid"`},
		"/api/v1/rpki/validate?prefix=2001:db8::/32&origin=64500": {`"state":"not-found","vrps":[]}`},
	} {
		got := w.get(target).Body.String()
		for _, x := range want {
			if !strings.Contains(got, x) {
				t.Errorf("%s: no %s in %s", target, x, got)
			}
		}
	}
	for query, want := range map[string]int{"rpki=valid": 1, "rpki=invalid": 2, "rpki=not-found": 4} {
		if l := w.list(query); l.total != want {
			t.Errorf("%s: %v", query, l.prefixes)
		}
	}
	if w.get("/api/v1/routes/10.0.0.0/8?include=rpki").Header().Get("ETag") != "" {
		t.Error("what the RPKI says may change within a generation")
	}
}

// The origin of a path that ends in a set is nobody's: it is never valid.
func TestRouteThatEndsInASetIsNotValid(t *testing.T) {
	vrps := fakeVRPs{{netip.MustParsePrefix("10.0.0.0/8"), 24, 64502}, {netip.MustParsePrefix("10.0.0.0/8"), 24, 0}}
	if got := rpkiState(vrps, route("10.1.2.0/24", testAttrs)); got != "invalid" {
		t.Error(got)
	}
	if got := rpkiState(vrps, rib.Route{Prefix: netip.MustParsePrefix("203.0.113.0/24")}); got != "not-found" {
		t.Error(got)
	}
}

func TestWithoutASourceOfVRPs(t *testing.T) {
	for _, deps := range []func(*Deps){nil, func(d *Deps) { d.VRPs = func() VRPs { return nil } }} {
		w := newWorld(t, deps)
		if got := w.get("/api/v1/routes/10.0.0.0/8?include=rpki").Body.String(); !strings.Contains(got, `"rpki":null},"vrps":null}`) {
			t.Error(got)
		}
		wantProblem(t, w.get("/api/v1/rpki/validate?prefix=10.0.0.0/8&origin=1"), http.StatusNotFound, "no source of VRPs")
	}
}

func TestValidateRefusesBadRequests(t *testing.T) {
	w := newRPKIWorld(t)
	for query, detail := range map[string]string{
		"": "no prefix", "prefix=10.0.0.0/8": `origin is ""`, "prefix=10.0.0.1/8&origin=1": "host bits", "prefix=10.0.0.0/8&origin=0": "0 is no AS number",
		"prefix=10.0.0.0/8&origin=1&x=1": `unknown parameter "x"`, "prefix=10.0.0.0/8&prefix=10.0.0.0/8&origin=1": "prefix is given 2 times", "prefix=%zz": "query",
	} {
		wantProblem(t, w.get("/api/v1/rpki/validate?"+query), http.StatusBadRequest, detail)
	}
}
