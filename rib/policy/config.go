package policy

// Config has the policies of a configuration file, and the prefix lists that they name. Compile
// checks it; keys that there are not are for the reader of the file to find.
type Config struct {
	// PrefixLists have entries of the form "10.0.0.0/8 ge 9 le 24": the prefix, and what is in it
	// of the given lengths. Without ge and le only the prefix itself; with le alone from the
	// prefix's own length on, with ge alone to the longest.
	PrefixLists map[string][]string     `toml:"prefix-lists"`
	Policies    map[string]PolicyConfig `toml:"policies"`
}

// Built-in policies.
const (
	Accept    = "accept"     // all but martians
	AcceptAll = "accept-all" // all
	Reject    = "reject"     // nothing
)

// Words of a configuration.
const (
	accept        = "accept"
	reject        = "reject"
	rejectInvalid = "reject-invalid"
	requireValid  = "require-valid"
)

// PolicyConfig describes a policy: what it asks of every route, terms in order, of which the first
// that matches decides, and what becomes of the rest.
type PolicyConfig struct {
	Martians     string `toml:"martians"`      // "reject", the default, or "accept"
	DefaultRoute string `toml:"default-route"` // "reject", the default, or "accept"
	// IPv4Length and IPv6Length are the shortest and the longest length of a prefix, as in [8, 24].
	// Without them any will do. They do not concern default routes.
	IPv4Length []int `toml:"ipv4-length"`
	IPv6Length []int `toml:"ipv6-length"`
	// MaxASPath is the longest AS path, counted as the decision does; 0: any.
	MaxASPath int `toml:"max-as-path"`
	// RejectASSets rejects routes with a set in their AS path, of a confederation too (RFC 9774).
	RejectASSets bool `toml:"reject-as-sets"`
	// RPKI is "reject-invalid", "require-valid", which rejects what is not found too, or empty.
	RPKI  string       `toml:"rpki"`
	Terms []TermConfig `toml:"terms"`
	Then  string       `toml:"then"` // "accept" or "reject" what no term matches; it has no default
}

// TermConfig describes a term. It matches a route for which all holds that it says.
type TermConfig struct {
	Name   string `toml:"name"`   // for messages; may be left out
	Action string `toml:"action"` // "accept" or "reject"

	Family      string   `toml:"family"`       // "ipv4" or "ipv6"
	PrefixLists []string `toml:"prefix-lists"` // one of them has the prefix
	// The prefix has a length from the first to the second number. A term with bounds for one
	// family alone matches nothing of the other.
	IPv4Length []int `toml:"ipv4-length"`
	IPv6Length []int `toml:"ipv6-length"`

	// ASPath are regular expressions in RE2's syntax, of which one matches some part of the path as
	// it is shown: "64500 64501 {64502,64503}". _ is a border of a number, as routers have it.
	ASPath         []string `toml:"as-path"`
	ASPathContains []uint32 `toml:"as-path-contains"` // one of them is in the path
	ASPathLength   []int    `toml:"as-path-length"`   // bounds, counted as the decision does
	Origin         []uint32 `toml:"origin"`           // one of them is the path's last AS, or in its last set

	// Patterns of communities: "64500:100", "64500:*", large "64500:1:*", extended "rt:64500:1",
	// "soo:192.0.2.1:*", "0x0002fde800000001". One of the first, or all of the second, are there.
	CommunitiesAny []string `toml:"communities-any"`
	CommunitiesAll []string `toml:"communities-all"`

	RPKI []string `toml:"rpki"` // the state is one of "valid", "invalid", "not-found"
}
