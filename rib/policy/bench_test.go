package policy

import (
	"math/rand/v2"
	"testing"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/rpki"
)

// transit is what an operator asks of an upstream.
const transit = `
[prefix-lists]
ours = ["193.0.0.0/16 le 32", "185.0.0.0/22 le 32", "2001:67c::/32 le 128"]
exchanges = ["80.249.208.0/21 le 32", "195.69.144.0/22 le 32", "2001:7f8::/32 le 128"]

[policies.transit]
ipv4-length = [8, 24]
ipv6-length = [16, 48]
max-as-path = 100
then = "accept"
[[policies.transit.terms]]
name = "ours"
action = "reject"
prefix-lists = ["ours", "exchanges"]
[[policies.transit.terms]]
name = "bogon ASes"
action = "reject"
as-path = ["_(23456|6449[6-9]|6555[0-9]|42[0-9]{8})_"]
[[policies.transit.terms]]
name = "marked"
action = "reject"
communities-any = ["64500:13", "64500:666:*"]
`

// BenchmarkCheck is what a prefix of a full table costs, in updates as a peer sends them: the
// prefixes of one set of attributes behind each other, otherwise in no order.
func BenchmarkCheck(b *testing.B) {
	table := fixtures.Generate(1, 1_042_325, 246_175)
	r := rand.New(rand.NewPCG(1, 1))
	var all []rpki.VRP
	for _, x := range table.Routes {
		if origins := table.Attrs[x.Attrs].ASPath.Origins(); r.IntN(100) < 46 && len(origins) > 0 {
			all = append(all, rpki.VRP{Prefix: x.Prefix, MaxLen: uint8(x.Prefix.Bits()), ASN: origins[0]})
		}
	}
	origins, err := rpki.NewTable(all)
	if err != nil {
		b.Fatal(err)
	}
	var updates []rib.Update
	for u := range table.Updates(200) {
		u.Reach = append([]rib.NLRI(nil), u.Reach...)
		updates = append(updates, u)
	}
	for _, x := range []struct{ name, config, policy string }{
		{"martians", "", Accept},
		{"transit", transit, "transit"},
		{"transit with the RPKI", transit + "[policies.checked]\nrpki = \"reject-invalid\"\nipv4-length = [8, 24]\nipv6-length = [16, 48]\nmax-as-path = 100\nthen = \"accept\"\n" +
			"[[policies.checked.terms]]\naction = \"reject\"\nprefix-lists = [\"ours\", \"exchanges\"]\n[[policies.checked.terms]]\naction = \"reject\"\ncommunities-any = [\"64500:13\"]\n", "checked"},
	} {
		b.Run(x.name, func(b *testing.B) {
			i := importOf(b, x.config, x.policy, origins)
			rejected := 0
			b.ReportAllocs()
			var scratch rib.Attrs // as a peer's
			at, n := 0, 0
			for b.Loop() {
				u := &updates[at]
				if n == 0 {
					scratch = u.Attrs
				}
				if i.Check(u.Reach[n].Prefix, &scratch) != rib.Accepted {
					rejected++
				}
				if n++; n == len(u.Reach) {
					if n, at = 0, at+1; at == len(updates) {
						at = 0
					}
				}
			}
			b.ReportMetric(100*float64(rejected)/float64(b.N), "%rejected")
			b.ReportMetric(float64(len(table.Routes))/float64(len(updates)), "prefixes/update")
		})
	}
}
