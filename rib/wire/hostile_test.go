package wire

import (
	"bytes"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/osrg/gobgp/v3/pkg/packet/bgp"

	"github.com/ribwarp/ribwarp/fixtures/hostile"
	"github.com/ribwarp/ribwarp/rib"
)

// hostileOptions are those of a case's session.
func hostileOptions(s hostile.Session) Options {
	return Options{TwoByteAS: s.TwoByteAS, AddPath4: s.AddPath, AddPath6: s.AddPath, External: !s.Internal}
}

// TestHostileCorpus gives every UPDATE of the corpus to a decoder, and then a sound one to the
// same decoder.
func TestHostileCorpus(t *testing.T) {
	set := func(lists ...[]netip.Prefix) map[netip.Prefix]bool {
		all := make(map[netip.Prefix]bool)
		for _, p := range slices.Concat(lists...) {
			all[p] = true
		}
		return all
	}
	prefixes := func(updates []rib.Update) (reach, unreach map[netip.Prefix]bool) {
		reach, unreach = make(map[netip.Prefix]bool), make(map[netip.Prefix]bool)
		for _, u := range updates {
			for _, n := range u.Reach {
				reach[n.Prefix] = true
			}
			for _, n := range u.Unreach {
				unreach[n.Prefix] = true
			}
		}
		return reach, unreach
	}
	verdicts, panics := make(map[hostile.Verdict]int), 0
	for _, c := range hostile.Corpus() {
		if !c.IsUpdate() {
			continue
		}
		verdicts[c.Want]++
		opt := hostileOptions(c.Session)
		d := NewDecoder(opt)
		m, err := d.Decode(c.Body)
		fail := func(format string, args ...any) {
			t.Helper()
			t.Errorf("%s: "+format+"\n%s\ndamage %v, bytes %x", slices.Concat([]any{c.Name}, args, []any{c.Reason, m.Damage, c.Body[:min(len(c.Body), 200)]})...)
		}
		if m.Verdict().String() != string(c.Want) {
			fail("verdict %s, want %s", m.Verdict(), c.Want)
			continue
		}
		if m.Panic != nil {
			panics++
		}
		var damage *Damage
		if errors.As(err, &damage) != (c.Want == hostile.Reset) {
			fail("error %v", err)
		}
		if c.Want == hostile.Reset && (m.Damage.Code != c.Code || m.Damage.Subcode != c.Subcode) {
			fail("NOTIFICATION %d/%d, want %d/%d", m.Damage.Code, m.Damage.Subcode, c.Code, c.Subcode)
		}
		if c.Subcode == subcodeWellKnown && (m.Damage.Data == nil || !bytes.Contains(c.Body, m.Damage.Data)) {
			fail("the data of the NOTIFICATION are %x, not the attribute", m.Damage.Data)
		}
		wantReach, wantUnreach := set(c.Reach), set(c.Unreach)
		if c.Want == hostile.Withdraw {
			wantReach, wantUnreach = set(), set(c.Reach, c.Unreach)
		}
		if reach, unreach := prefixes(m.Updates); !maps.Equal(reach, wantReach) || !maps.Equal(unreach, wantUnreach) {
			fail("announces %v and withdraws %v, want %v and %v", reach, unreach, wantReach, wantUnreach)
		}

		sound := c.Session.Sound(hostile.Probe, hostile.Target4, hostile.Target6)
		got, err := d.Decode(sound)
		want, _ := Decode(sound, opt)
		if err != nil || got.Damage != nil || len(want.Updates) != 2 || !same(got.Updates, want.Updates) {
			fail("a sound message afterwards: got %+v, %v, want %+v", got, err, want)
		}
	}
	t.Log(verdicts)
	if panics != 3 { // MP_REACH_NLRI of 3 bytes, which the codec does not check
		t.Errorf("the codec panicked at %d cases", panics)
	}
	for _, v := range []hostile.Verdict{hostile.OK, hostile.Discard, hostile.Withdraw, hostile.Reset} {
		if verdicts[v] == 0 {
			t.Errorf("no case of %s", v)
		}
	}
}

// gobgpVerdict is what GoBGP makes of an UPDATE: its decoder's and its validator's verdict, the
// worse of both, or "panic".
func gobgpVerdict(body []byte, s hostile.Session) (verdict string) {
	defer func() {
		if recover() != nil {
			verdict = "panic"
		}
	}()
	mode := bgp.BGP_ADD_PATH_NONE
	if s.AddPath {
		mode = bgp.BGP_ADD_PATH_RECEIVE
	}
	families := map[bgp.RouteFamily]bgp.BGPAddPathMode{bgp.RF_IPv4_UC: mode, bgp.RF_IPv6_UC: mode}
	m := &bgp.BGPUpdate{}
	worst := OK
	note := func(err error) {
		var e *bgp.MessageError
		switch {
		case err == nil:
		case !errors.As(err, &e):
			worst = SessionReset
		default:
			worst = max(worst, map[bgp.ErrorHandling]Verdict{bgp.ERROR_HANDLING_ATTRIBUTE_DISCARD: AttributeDiscard, bgp.ERROR_HANDLING_TREAT_AS_WITHDRAW: TreatAsWithdraw,
				bgp.ERROR_HANDLING_AFISAFI_DISABLE: SessionReset, bgp.ERROR_HANDLING_SESSION_RESET: SessionReset}[e.ErrorHandling])
		}
	}
	note(m.DecodeFromBytes(body, &bgp.MarshallingOption{AddPath: families}))
	if worst < SessionReset {
		_, err := bgp.ValidateUpdateMsg(m, families, !s.Internal, false, false)
		note(err)
	}
	return worst.String()
}

// gobgpDiffers lists where GoBGP judges otherwise and why, by parts of the names of cases.
var gobgpDiffers = []struct {
	theirs string // verdicts
	names  string // parts, with | between them
	why    string
}{
	{"treat-as-withdraw panic session-reset", "with the Partial flag|with reserved flags", "it checks flags that are not prescribed (RFC 7606, 3 c)"},
	{"treat-as-withdraw attribute-discard panic", "PREFIX_SID|AIGP|BGP-LS|IPv6 extended|attribute 2|attribute 4|attributes of odd lengths|not decoded", "it decodes more attributes than are of use here"},
	{"treat-as-withdraw", "of all types and subtype", "it has unknown subtypes of extended communities for damage (RFC 7606, 7.14)"},
	{"treat-as-withdraw panic", "without prefixes|and no prefix|End-of-RIB of IPv6 beside an empty", "it withdraws where there is nothing to withdraw (RFC 7606, 5.2)"},
	{"treat-as-withdraw", "all attributes end|one byte too short", "it looks at nothing behind an attribute that is cut, and at no NLRI (RFC 7606, 3 j)"},
	{"session-reset", "longer than there are bytes", "it reads on into the prefixes, and counts below zero (CVE-2026-37462)"},
	{"panic", "NEXT_HOP", "its validator takes NEXT_HOP for 4 bytes also after an error (CVE-2026-30405)"},
	{"treat-as-withdraw", "MP_REACH_NLRI alone", "it looks at NEXT_HOP also where it means nothing (RFC 4760, 3)"},
	{"session-reset", "of another family|of family|flow specification|labelled|VPN|EVPN", "its validator ends sessions over families that were not agreed on"},
	{"ok session-reset", "ONLY_TO_CUSTOMER", "it does not know the attribute (RFC 9234)"},
	{"treat-as-withdraw", "and again with damage", "it decodes what it then leaves out (RFC 7606, 3 g)"},
	{"ok treat-as-withdraw", "means nothing|from outside|both of 4 bytes", "it keeps what is to be discarded (RFC 7606, 7.5, 7.9, 7.10; RFC 6793, 4.1)"},
	{"ok treat-as-withdraw", "AS4_PATH|AS4_AGGREGATOR", "damage in them costs it the route, none the attribute (RFC 6793, 6)"},
	{"ok", "AS 0", "it takes AS 0 (RFC 7607)"},
	{"ok", "2-byte numbers among|4-byte numbers among|2 bytes among", "it guesses the size of AS numbers"},
	{"ok", "S without a value|Y without a value|T without a value", "it takes lists without elements (RFC 7606, 4)"},
	{"ok", "unspecified next hop|multicast next hop|next hop of 0 bytes|next hop of 4 bytes", "it does not look at next hops of MP_REACH_NLRI (RFC 7606, 7.11)"},
	{"panic", "MP_REACH_NLRI of 3 bytes|3 bytes of it", "it reads the length of the next hop unseen"},
}

// TestHostileCorpusAndGoBGP compares the verdicts of the corpus with GoBGP's: every difference is
// one of those that are known.
func TestHostileCorpusAndGoBGP(t *testing.T) {
	seen := make([]int, len(gobgpDiffers))
	same := 0
	for _, c := range hostile.Corpus() {
		if !c.IsUpdate() {
			continue
		}
		theirs := gobgpVerdict(c.Body, c.Session)
		if theirs == string(c.Want) {
			same++
			continue
		}
		i := slices.IndexFunc(gobgpDiffers, func(d struct{ theirs, names, why string }) bool {
			return slices.Contains(strings.Fields(d.theirs), theirs) && slices.ContainsFunc(strings.Split(d.names, "|"), func(part string) bool { return strings.Contains(c.Name, part) })
		})
		if i < 0 {
			t.Errorf("%s: %s here and %s there, for no known reason", c.Name, c.Want, theirs)
			continue
		}
		seen[i]++
	}
	for i, d := range gobgpDiffers {
		t.Logf("%3d: %s", seen[i], d.why)
		if seen[i] == 0 {
			t.Errorf("no longer so: %s", d.why)
		}
	}
	t.Logf("%3d cases have the same verdict", same)
}
