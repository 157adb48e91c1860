package wire

import "fmt"

// A Verdict says what damage costs (RFC 7606, section 2). Larger is worse.
type Verdict uint8

const (
	// OK is a message without damage.
	OK Verdict = iota
	// AttributeDiscard leaves one attribute out; the routes count.
	AttributeDiscard
	// TreatAsWithdraw takes the announced prefixes for withdrawn.
	TreatAsWithdraw
	// SessionReset gives nothing of the message: the session has to end.
	SessionReset

	// NumVerdicts is how many there are, for arrays of counters.
	NumVerdicts
)

// String is a short stable word, fit for a metric label.
func (v Verdict) String() string {
	switch v {
	case OK:
		return "ok"
	case AttributeDiscard:
		return "attribute-discard"
	case TreatAsWithdraw:
		return "treat-as-withdraw"
	case SessionReset:
		return "session-reset"
	}
	return fmt.Sprintf("verdict-%d", uint8(v))
}

// Subcodes of the NOTIFICATION "UPDATE Message Error" (RFC 4271, section 6.3).
const (
	codeUpdate = 3 // the code they belong to

	subcodeAttributeList     = 1
	subcodeWellKnown         = 2
	subcodeMissing           = 3
	subcodeFlags             = 4
	subcodeLength            = 5
	subcodeOrigin            = 6
	subcodeNextHop           = 8
	subcodeOptionalAttribute = 9
	subcodeNetworkField      = 10
	subcodeASPath            = 11
)

// Damage is the worst thing wrong with a message and what it costs.
type Damage struct {
	Verdict Verdict
	Reason  string // for people: what is wrong with what
	// Code and Subcode are those of the NOTIFICATION that reports it (RFC 4271, section 6).
	Code, Subcode uint8
	Data          []byte // of the NOTIFICATION: the attribute in question where there is one
}

// Error gives the reason and what it costs.
func (d *Damage) Error() string { return d.Reason + ": " + d.Verdict.String() }
