package main

import (
	"net/netip"

	"github.com/ribwarp/ribwarp/api"
	"github.com/ribwarp/ribwarp/rib/rpki"
)

// apiVRPs gives what the API asks about the RPKI: the VRPs in force, nil where no source of them is
// configured.
func (s *service) apiVRPs() api.VRPs {
	if c := s.plan.Load().rpki; len(c.Caches)+len(c.Files) == 0 {
		return nil
	}
	return vrpTable{s.vrps.Table()}
}

// vrpTable is rpki.Table as the API sees it.
type vrpTable struct{ *rpki.Table }

func (t vrpTable) State(prefix netip.Prefix, origin uint32) string {
	return t.Validate(prefix, origin).String()
}

func (t vrpTable) Covering(prefix netip.Prefix) []api.VRP {
	var all []api.VRP
	for _, v := range t.Table.Covering(prefix) {
		all = append(all, api.VRP{Prefix: v.Prefix, MaxLength: v.MaxLen, ASN: v.ASN})
	}
	return all
}
