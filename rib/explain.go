package rib

import "net/netip"

// A DecisiveStep is how the decision took a path out.
type DecisiveStep struct {
	Name string // of the step: Candidate.LostBy ("unreachable" too), or "rejected"
	// Value is what the step looked at, Best what those had that stayed: a number (uint32, uint64,
	// int), true or false, a word (string) or a netip.Addr; nil for what is not known. Of MEDs only
	// those of the same neighbouring AS are compared.
	Value, Best any
}

// compared gives what a step compares, for people, by the name of the step.
var compared = map[string]func(c *contender) any{
	"rejected":            func(c *contender) any { return c.reject.String() },
	lostUnreachable:       func(c *contender) any { return c.unreachable() },
	"long-lived-stale":    func(c *contender) any { return c.is(leastPreferred) },
	"local-pref":          func(c *contender) any { return c.localPref },
	"as-path-length":      func(c *contender) any { return c.pathLength },
	"origin":              func(c *contender) any { return OriginName(c.origin) },
	"med":                 func(c *contender) any { return c.med },
	"ebgp-over-ibgp":      func(c *contender) any { return sessionName(c.speaker.internal) },
	"igp-cost":            func(c *contender) any { return knownCost(c.igpCost) },
	"router-id":           func(c *contender) any { return knownAddr(c.routerID) },
	"cluster-list-length": func(c *contender) any { return int(c.clusterListLength) },
	"peer-address":        func(c *contender) any { return knownAddr(c.speaker.peer.config.Addr) },
	"path-id":             func(c *contender) any { return c.id },
	"peer-name":           func(c *contender) any { return c.speaker.peer.config.Name },
}

func sessionName(internal bool) string {
	if internal {
		return "ibgp"
	}
	return "ebgp"
}

// knownCost gives nil for unknownCost.
func knownCost(cost uint64) any {
	if cost == unknownCost {
		return nil
	}
	return cost
}

// knownAddr gives nil for the zero address.
func knownAddr(a netip.Addr) any {
	if !a.IsValid() {
		return nil
	}
	return a
}

// decisive says what took c, one of the contenders, out; nothing for the best path. It is called
// behind run.
func (d *decision) decisive(c *contender) (out DecisiveStep) {
	if c.lostBy == len(steps) {
		return out
	}
	out.Name = steps[c.lostBy].name
	if c.usable() && c.unreachable() { // a reason of its own not to take part
		out.Name = lostUnreachable
	}
	value := compared[out.Name]
	if value == nil {
		return out
	}
	out.Value = value(c)
	switch {
	case !c.usable():
		out.Best = Accepted.String()
		return out
	case c.unreachable():
		out.Best = false
		return out
	}
	for i := range d.contenders {
		other := &d.contenders[i]
		// Those that stayed have one value, but for MEDs.
		if other.lostBy > c.lostBy && (out.Name != "med" || other.neighbour == c.neighbour) {
			out.Best = value(other)
			break
		}
	}
	return out
}
