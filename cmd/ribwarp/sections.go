package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/bgp"
	"github.com/ribwarp/ribwarp/rib/bmp"
	"github.com/ribwarp/ribwarp/rib/policy"
	"github.com/ribwarp/ribwarp/rib/rpki"
)

// serveName is the command whose table of the configuration file has sections.
const serveName = "serve"

// sections are what the configuration file says of serve beside its flags: docs/operations.md
// describes them.
type sections struct {
	Peers       peerList                       `toml:"peer"` // the flag peer, or tables
	Tables      []tableSection                 `toml:"table"`
	PrefixLists map[string][]string            `toml:"prefix-lists"`
	Policies    map[string]policy.PolicyConfig `toml:"policy"`
	RPKI        rpki.Config                    `toml:"rpki"`
	BMP         bmpSection                     `toml:"bmp"`
	Snapshot    snapshotSection                `toml:"snapshot"`
	IGP         igpSection                     `toml:"igp"`
}

var sectionNames = []string{"peer", "table", "prefix-lists", "policy", "rpki", "bmp", "snapshot", "igp"}

// isSection tells whether a key of [serve] is a section.
func isSection(key string) bool { return slices.Contains(sectionNames, key) }

// tableSection is a table with route files of its own.
type tableSection struct {
	Name string   `toml:"name"`
	RIBs []string `toml:"rib"`
}

// bmpSection is bmp.Config as a file has it.
type bmpSection struct {
	Listen       []string        `toml:"listen"`
	Routers      []routerSection `toml:"router"`
	MaxRouters   int             `toml:"max-routers"`
	MaxHalfOpen  int             `toml:"max-half-open"`
	OpenTimeout  duration        `toml:"open-timeout"`
	ReadTimeout  duration        `toml:"read-timeout"`
	KeepAlive    duration        `toml:"keepalive"`
	ConnectRetry duration        `toml:"connect-retry"`
}

// routerSection is bmp.RouterConfig as a file has it.
type routerSection struct {
	Name              string       `toml:"name"`
	Addr              netip.Addr   `toml:"address"`
	Prefix            netip.Prefix `toml:"prefix"`
	Limit             int          `toml:"limit"`
	Port              uint16       `toml:"port"`
	Table             string       `toml:"table"`
	VRFTable          string       `toml:"vrf-table"`
	View              bmp.View     `toml:"view"`
	Import            string       `toml:"import"`
	Optional          bool         `toml:"optional"`
	StaleTime         duration     `toml:"stale-time"`
	MaxPeers          int          `toml:"max-peers"`
	MaxTables         int          `toml:"max-tables"`
	MaxRoutes         int          `toml:"max-routes"`
	MaxAttributeBytes int          `toml:"max-attribute-bytes"`
	NoAddPath         bool         `toml:"no-add-path"`
}

// snapshotSection says where the tables are saved for the next start, and how often.
type snapshotSection struct {
	File      string   `toml:"file"`
	Interval  duration `toml:"interval"`
	StaleTime duration `toml:"stale-time"`
	MaxAge    duration `toml:"max-age"`
}

// A duration is text such as "90s" in the file: a bare number would not say of what.
type duration struct{ time.Duration }

// UnmarshalTOML is part of toml.Unmarshaler.
func (d *duration) UnmarshalTOML(value any) error {
	text, ok := value.(string)
	var err error
	if ok {
		d.Duration, err = time.ParseDuration(text)
	}
	if !ok || err != nil || d.Duration <= 0 {
		return fmt.Errorf("%v is no time such as \"90s\", \"5m\" or \"24h\"", value)
	}
	return nil
}

// peerList is the key peer of the file: what the flag takes, one or an array of them, or tables
// with the same keys.
type peerList []bgp.PeerConfig

// UnmarshalTOML is part of toml.Unmarshaler.
func (l *peerList) UnmarshalTOML(value any) error {
	switch entries := value.(type) {
	case []any:
		for i, entry := range entries {
			if err := l.add(entry); err != nil {
				return fmt.Errorf("serve.peer, number %d: %w", i+1, err)
			}
		}
		return nil
	case []map[string]any:
		for i, entry := range entries {
			if err := l.add(entry); err != nil {
				return fmt.Errorf("serve.peer, number %d: %w", i+1, err)
			}
		}
		return nil
	}
	if err := l.add(value); err != nil {
		return fmt.Errorf("serve.peer: %w", err)
	}
	return nil
}

func (l *peerList) add(value any) error {
	var p bgp.PeerConfig
	var err error
	switch entry := value.(type) {
	case string:
		p, err = bgp.ParsePeer(entry)
	case map[string]any:
		p, err = peerOfTable(entry)
	default:
		err = fmt.Errorf("%v is neither text as --peer has it nor a table", value)
	}
	*l = append(*l, p)
	return err
}

// peerOfTable reads a peer whose keys are those of --peer, with the address as "address" or
// "prefix".
func peerOfTable(keys map[string]any) (bgp.PeerConfig, error) {
	address, isAddr := keys["address"]
	prefix, isPrefix := keys["prefix"]
	switch {
	case isAddr == isPrefix:
		return bgp.PeerConfig{}, errors.New("give either address or prefix")
	case isPrefix:
		address = prefix
	}
	text := fmt.Sprint(address)
	if isPrefix != strings.Contains(text, "/") {
		return bgp.PeerConfig{}, fmt.Errorf("%q: an address has no length, and a prefix has one", text)
	}
	password, hasPassword := "", false
	for _, key := range sortedKeys(keys) {
		switch value := keys[key].(type) {
		case bool:
			if value {
				text += "," + key
			}
		case string, int64:
			field := fmt.Sprint(value)
			switch {
			case key == "address" || key == "prefix":
				continue
			case key == "md5": // any text, and none that an error may show
				password, hasPassword = field, true
				continue
			case strings.ContainsAny(field, ",\n"):
				return bgp.PeerConfig{}, fmt.Errorf("%s %q has a comma or a line break in it", key, field)
			}
			text += "," + key + "=" + field
		default:
			return bgp.PeerConfig{}, fmt.Errorf("%s must be text, a number, or true or false", key)
		}
	}
	p, err := bgp.ParsePeer(text)
	if wrong := (*bgp.PeerError)(nil); errors.As(err, &wrong) {
		return bgp.PeerConfig{}, fmt.Errorf("%v: %s", cmp.Or(keys["name"], address), tableProblem(wrong, keys))
	}
	if err == nil && hasPassword {
		switch {
		case p.MD5 != "":
			err = errors.New("md5 and md5-file: give one")
		case password == "":
			err = errors.New("md5 is empty: leave it out for no password")
		}
		p.MD5 = password
	}
	return p, err
}

// tableProblem says what is wrong with a peer to whoever has written it as a table.
func tableProblem(e *bgp.PeerError, keys map[string]any) string {
	known := append(bgp.PeerKeys(), "address", "prefix")
	for _, key := range sortedKeys(keys) {
		_, text := keys[key].(string)
		switch {
		case !slices.Contains(known, key):
			return fmt.Sprintf("%q is unknown: %s", key, instead(key, known))
		case e.Problem == key+" takes no value":
			return key + " has to be true or false"
		case e.Problem == key+" has no value" && !text:
			return key + " has to be text or a number"
		}
	}
	return e.Problem
}

// decodeSections reads the sections of a configuration file. An error names the key.
func decodeSections(text string) (*sections, error) {
	var file struct {
		Serve map[string]toml.Primitive `toml:"serve"`
	}
	meta, err := toml.Decode(text, &file)
	if err != nil {
		return nil, err
	}
	s := new(sections)
	targets := map[string]any{
		"peer": &s.Peers, "table": &s.Tables, "prefix-lists": &s.PrefixLists, "policy": &s.Policies,
		"rpki": &s.RPKI, "bmp": &s.BMP, "snapshot": &s.Snapshot, "igp": &s.IGP,
	}
	for _, name := range sectionNames {
		if value, ok := file.Serve[name]; ok {
			err := meta.PrimitiveDecode(value, targets[name])
			var of toml.ParseError
			switch {
			case err == nil:
			case name == "peer" && errors.As(err, &of):
				return nil, errors.New(of.Message) // its line is that of the last peer, whichever is wrong
			default:
				return nil, readable(err)
			}
		}
	}
	for _, key := range meta.Undecoded() { // peers have looked at all of theirs
		if len(key) > 2 && key[0] == serveName && key[1] != "peer" && isSection(key[1]) {
			return nil, fmt.Errorf("unknown key %q: %s", key.String(), instead(key[len(key)-1], keysOf(reflect.TypeOf(targets[key[1]]), key[2:len(key)-1])))
		}
	}
	names := map[string]bool{}
	for _, t := range s.Tables {
		if err := rib.CheckTableName(t.Name); err != nil {
			return nil, fmt.Errorf("serve.table: %w", err)
		}
		if names[t.Name] {
			return nil, fmt.Errorf("serve.table: %q is there twice: one entry a table", t.Name)
		}
		names[t.Name] = true
	}
	return s, nil
}

// config gives the station's configuration.
func (b *bmpSection) config() bmp.Config {
	c := bmp.Config{
		Listen: b.Listen, MaxRouters: b.MaxRouters, MaxHalfOpen: b.MaxHalfOpen, OpenTimeout: b.OpenTimeout.Duration,
		ReadTimeout: b.ReadTimeout.Duration, KeepAlive: b.KeepAlive.Duration, ConnectRetry: b.ConnectRetry.Duration,
	}
	for _, r := range b.Routers {
		c.Routers = append(c.Routers, bmp.RouterConfig{
			Name: r.Name, Addr: r.Addr, Prefix: r.Prefix, Limit: r.Limit, Port: r.Port, Table: r.Table, VRFTable: r.VRFTable,
			View: r.View, Import: r.Import, Optional: r.Optional, StaleTime: r.StaleTime.Duration,
			MaxPeers: r.MaxPeers, MaxTables: r.MaxTables, MaxRoutes: r.MaxRoutes, MaxAttributeBytes: r.MaxAttributeBytes, NoAddPath: r.NoAddPath,
		})
	}
	return c
}
