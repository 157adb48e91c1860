package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/ribwarp/ribwarp/flavors/tune"
	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/bgp"
	"github.com/ribwarp/ribwarp/rib/bgpls"
	"github.com/ribwarp/ribwarp/rib/bmp"
	"github.com/ribwarp/ribwarp/rib/policy"
	"github.com/ribwarp/ribwarp/rib/rpki"
	"github.com/ribwarp/ribwarp/rib/snapshot"
)

// A plan is what serve is to run, made of its flags and its sections and checked as a whole.
type plan struct {
	*serveOptions
	bgp      bgp.Config
	sessions bool // there are peers
	bmp      bmp.Config
	station  bool // BMP is configured
	rpki     rpki.Config
	policies *policy.Set
	snapshot snapshotSection
	igp      igpPlan
	files    []routeFile
	models   tune.Models // that the tuner predicts by; none where it does not run
}

// A routeFile is a file whose routes go into a table.
type routeFile struct{ table, path string }

// plan checks the options. vrps is what policies ask about the RPKI; nothing is started, opened or
// kept.
func (o *serveOptions) plan(vrps *rpki.Store) (*plan, error) {
	p := &plan{serveOptions: o}
	if o.readyTimeout < 0 {
		return nil, o.wrong("ready-timeout", fmt.Errorf("%v: it is positive, or 0 to wait for ever", o.readyTimeout))
	}
	if o.maxTables < 1 {
		return nil, o.wrong("max-tables", fmt.Errorf("%d: there is one at least", o.maxTables))
	}
	if o.past.Most < 0 {
		return nil, o.wrong("past-generations", fmt.Errorf("%d: it is not negative", o.past.Most))
	}
	if o.past.Interval < 0 {
		return nil, o.wrong("past-interval", fmt.Errorf("%v: it is not negative", o.past.Interval))
	}
	if _, err := o.options(); err != nil {
		if wrong := new(flagError); errors.As(err, &wrong) {
			err = o.wrong(wrong.flag, wrong.err)
		}
		return nil, err
	}
	if err := o.planAdmission(); err != nil {
		return nil, err
	}
	var err error
	if p.models, err = o.planTuner(); err != nil {
		return nil, err
	}
	for _, path := range o.ribs {
		p.files = append(p.files, routeFile{rib.DefaultTable, path})
	}
	if err := p.planPeers(); err != nil {
		return nil, err
	}
	var section igpSection
	if o.sections != nil {
		section = o.sections.IGP
		if err := p.planSections(o.sections, vrps); err != nil {
			return nil, o.inConfig(err)
		}
	}
	if err := p.checkListeners(); err != nil {
		return nil, err
	}
	linked := slices.ContainsFunc(p.bgp.Peers, func(c bgp.PeerConfig) bool { return c.LinkState })
	if p.igp, err = planIGP(section, linked); err != nil {
		return nil, o.inConfig(err)
	}
	if p.policies == nil {
		p.policies, _ = policy.Compile(policy.Config{}, nil) // nothing that could be wrong
	}
	if err := p.rehearse(); err != nil {
		if o.sections == nil {
			return nil, usageError{err}
		}
		return nil, o.inConfig(err)
	}
	return p, nil
}

// planPeers finds the peers: those of the command line, or else of the file.
func (p *plan) planPeers() (err error) {
	o := p.serveOptions
	for _, text := range o.peers {
		peer, err := bgp.ParsePeer(text)
		if err != nil {
			return usagef("--peer: %w", err)
		}
		p.bgp.Peers = append(p.bgp.Peers, peer)
	}
	if len(o.peers) == 0 && o.sections != nil {
		p.bgp.Peers = o.sections.Peers
	}
	if len(p.bgp.Peers) == 0 {
		if len(o.bgpListen) > 0 {
			return o.wrong("bgp-listen", fmt.Errorf("%s: only configured peers may connect there: name at least one with peer", strings.Join(o.bgpListen, ",")))
		}
		return nil
	}
	p.sessions = true
	p.bgp.ASN, p.bgp.Listen, p.bgp.HoldTime = o.asn, o.bgpListen, o.holdTime
	if p.bgp.RouterID, err = netip.ParseAddr(o.routerID); err != nil || !p.bgp.RouterID.Is4() {
		return o.wrong("router-id", fmt.Errorf("%q: peers need an IPv4 address that identifies this router, such as 192.0.2.1", o.routerID))
	}
	if o.asn == 0 {
		return o.wrong("asn", errors.New("is missing: peers need to know the AS number of this router"))
	}
	for _, peer := range p.bgp.Peers {
		if peer.Passive && len(o.bgpListen) == 0 {
			return o.wrong("bgp-listen", fmt.Errorf("is missing: peer %s waits for the peer to connect, and this says where", peerName(peer)))
		}
	}
	return nil
}

func (p *plan) planSections(s *sections, vrps *rpki.Store) (err error) {
	p.bmp, p.station = s.BMP.config(), len(s.BMP.Listen)+len(s.BMP.Routers) > 0
	p.snapshot = s.Snapshot
	p.rpki = s.RPKI
	if err := p.rpki.Validate(); err != nil {
		return err
	}
	var origins policy.Origins // none where no source of VRPs is configured
	if len(p.rpki.Caches)+len(p.rpki.Files) > 0 {
		origins = vrps
	}
	if p.policies, err = policy.Compile(policy.Config{PrefixLists: s.PrefixLists, Policies: s.Policies}, origins); err != nil {
		return err
	}
	for _, t := range s.Tables {
		for _, path := range t.RIBs {
			p.files = append(p.files, routeFile{t.Name, path})
		}
	}
	seen := map[routeFile]bool{}
	for _, f := range p.files {
		if seen[f] && f.path != "-" {
			return fmt.Errorf("table %q: route file %s is there twice", f.table, f.path)
		}
		seen[f] = true
	}
	if p.snapshot.File == "" && p.snapshot != (snapshotSection{}) {
		return errors.New("snapshot: file is missing: say where the tables are saved")
	}
	return nil
}

// rehearse makes everything once with tables that nobody sees: what parts find wrong with their
// configuration, or with that of the others, comes out before anything runs.
func (p *plan) rehearse() error {
	quiet := slog.New(slog.DiscardHandler)
	tables := map[string]*rib.RIB{}
	open := func(name string) (*rib.RIB, error) {
		if err := rib.CheckTableName(name); err != nil {
			return nil, err
		}
		if tables[name] == nil {
			tables[name] = rib.New(rib.Options{Log: quiet})
		}
		return tables[name], nil
	}
	for _, name := range p.tableNames() {
		if _, err := open(name); err != nil {
			return err
		}
	}
	if p.sessions {
		c := p.bgp
		c.Log, c.LinkState = quiet, bgpls.NewDatabase(quiet, nil)
		server, err := bgp.New(c, open, p.peerPolicy)
		if err != nil {
			return err
		}
		defer server.Stop()
	}
	if p.station {
		c := p.bmp
		c.Log = quiet
		station, err := bmp.New(c, open, p.routerPolicy)
		if err != nil {
			return err
		}
		defer station.Stop()
	}
	if len(tables) > p.maxTables {
		return fmt.Errorf("there are %d tables, and --max-tables is %d", len(tables), p.maxTables)
	}
	return nil
}

// peerPolicy is a bgp.PolicyFunc.
func (p *plan) peerPolicy(name string, peer bgp.PeerConfig) (rib.Import, error) {
	return p.policies.For(name, policy.Peer{LocalAS: p.asn})
}

// routerPolicy is a bmp.PolicyFunc.
func (p *plan) routerPolicy(name string, peer bmp.Peer) (rib.Import, error) {
	return p.policies.For(name, policy.Peer{LocalAS: peer.LocalAS})
}

// tableNames gives the tables that the configuration names, sorted. Those of BMP routers may be more.
func (p *plan) tableNames() []string {
	names := map[string]bool{rib.DefaultTable: true}
	for _, peer := range p.bgp.Peers {
		names[orDefault(peer.Table)] = true
	}
	for _, r := range p.bmp.Routers {
		if t := orDefault(r.Table); !strings.Contains(t, "{") {
			names[t] = true
		}
	}
	if p.sections != nil {
		for _, t := range p.sections.Tables {
			names[t.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func orDefault(table string) string {
	if table == "" {
		return rib.DefaultTable
	}
	return table
}

// asksRPKI tells whether the routes of the peer of that name are to be judged anew where the RPKI
// has changed. Behind the name of a prefix or a router stands a slash.
func (p *plan) asksRPKI(name string) bool {
	owner, _, _ := strings.Cut(name, "/")
	for _, peer := range p.bgp.Peers {
		own := peerName(peer)
		if (own == name || strings.HasPrefix(name, own+"/")) && p.policies.AsksRPKI(peer.Import) {
			return true
		}
	}
	for _, r := range p.bmp.Routers {
		if routerName(r) == owner && p.policies.AsksRPKI(r.Import) {
			return true
		}
	}
	return false
}

// peerName is the name that a peer gets where it has none.
func peerName(p bgp.PeerConfig) string {
	switch {
	case p.Name != "":
		return p.Name
	case p.Prefix.IsValid():
		return p.Prefix.String()
	}
	return p.Addr.String()
}

// routerName is the name that a router gets where it has none.
func routerName(r bmp.RouterConfig) string {
	switch {
	case r.Name != "":
		return r.Name
	case r.Prefix.IsValid():
		return strings.ReplaceAll(r.Prefix.String(), "/", "-")
	}
	return r.Addr.String()
}

// sources names where the default table's routes come from, for its generations.
func (p *plan) sources() string {
	source := append([]string(nil), p.ribs...)
	if p.sessions {
		source = append(source, "bgp")
	}
	if p.station {
		source = append(source, "bmp")
	}
	return strings.Join(source, ",")
}

// checkFiles looks whether the files are there that it would take, and can be used. What is large
// is not read, and nothing is written.
func (p *plan) checkFiles() error {
	for _, f := range p.files {
		if err := f.check(); err != nil {
			return p.inConfig(err)
		}
	}
	for _, path := range p.rpki.Files {
		f, err := rpki.ReadFile(path)
		if err == nil {
			_, err = rpki.NewTable(f.VRPs)
		}
		if err != nil {
			return p.inSection("rpki.files", err)
		}
	}
	if p.snapshot.File != "" {
		if err := snapshot.Check(p.snapshot.File); err != nil {
			return p.inSection("snapshot.file", err)
		}
	}
	return nil
}

// check looks whether a route file can be read. Nothing but a file will do: of a pipe nobody knows
// whether it is ever written to, and whoever waits for it would wait with the reload and the end of
// the service.
func (f routeFile) check() error {
	if f.path == "-" {
		return nil
	}
	info, err := os.Stat(f.path)
	switch {
	case err != nil:
	case info.IsDir():
		err = fmt.Errorf("%s is a directory, not a file", f.path)
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s is no regular file but a pipe, device or socket: write what it gives to a file; for standard input give -", f.path)
	default:
		var opened *os.File
		if opened, err = os.Open(f.path); err == nil {
			_ = opened.Close()
		}
	}
	if err != nil {
		return fmt.Errorf("route file of table %q: %w", f.table, err)
	}
	return nil
}

// print says what would run.
func (p *plan) print(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	line := func(what string, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", what, fmt.Sprintf(format, args...))
	}
	line("http", "%s", p.listen)
	if p.sessions {
		line("bgp", "AS %d, router ID %s, listens at %s", p.bgp.ASN, p.bgp.RouterID, orNone(p.bgp.Listen))
	}
	for _, peer := range p.bgp.Peers {
		where := peer.Addr.String()
		if peer.Prefix.IsValid() {
			where = fmt.Sprintf("up to %d of %s", peer.Limit, peer.Prefix)
		}
		imports := peer.Import
		switch {
		case imports == "" && peer.AS != p.bgp.ASN:
			imports = "nothing: an external peer without import (RFC 8212)"
		case imports == "":
			imports = "all: an internal peer"
		}
		line("peer", "%s: %s AS %d, table %s, imports %s", peerName(peer), where, peer.AS, orDefault(peer.Table), imports)
	}
	if p.station {
		line("bmp", "listens at %s", orNone(p.bmp.Listen))
	}
	for _, r := range p.bmp.Routers {
		where := r.Addr.String()
		if r.Prefix.IsValid() {
			where = "any of " + r.Prefix.String()
		}
		tables := "table " + orDefault(r.Table)
		if r.VRFTable != "" {
			tables += ", VRFs " + r.VRFTable
		}
		line("router", "%s: %s, %s", routerName(r), where, tables)
	}
	for _, address := range p.rpki.Caches {
		line("rpki", "cache %s", address)
	}
	for _, path := range p.rpki.Files {
		line("rpki", "file %s", path)
	}
	if p.sections != nil {
		for _, name := range sortedKeys(p.sections.Policies) {
			line("policy", "%s", name)
		}
	}
	for _, name := range p.tableNames() {
		var files []string
		for _, f := range p.files {
			if f.table == name {
				files = append(files, f.path)
			}
		}
		line("table", "%s: route files %s", name, orNone(files))
	}
	line("tune", "%s", p.describeTuner())
	if p.igp.Source != "" {
		line("igp", "%s", p.igp.describe())
	}
	if p.snapshot.File != "" {
		line("snapshot", "%s", p.snapshot.File)
	}
	return w.Flush()
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}
