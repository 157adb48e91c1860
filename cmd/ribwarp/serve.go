package main

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ribwarp/ribwarp/rib/bgp"
)

// serveOptions are the flags of serve; the demo fills them itself.
type serveOptions struct {
	tableOptions
	listen       string
	bgpListen    []string
	asn          uint32
	routerID     string
	peers        []string
	holdTime     time.Duration
	readyTimeout time.Duration
}

func (o *serveOptions) flags(fs *pflag.FlagSet) {
	o.tableOptions.flags(fs, engineAuto)
	fs.StringVar(&o.listen, "listen", "127.0.0.1:8080", "serve HTTP on this `ADDRESS:PORT`")
	fs.StringArrayVar(&o.bgpListen, "bgp-listen", nil, "accept BGP sessions of the peers on this `ADDRESS:PORT`, such as 0.0.0.0:179; repeat for more (default: accept none)")
	fs.Uint32Var(&o.asn, "asn", 0, "own AS `NUMBER`, needed for peers")
	fs.StringVar(&o.routerID, "router-id", "", "own BGP identifier, an `IPv4` address, needed for peers")
	fs.StringArrayVar(&o.peers, "peer", nil, "learn routes from this `ADDRESS,asn=N[,port=N][,passive]`; repeat for more")
	fs.DurationVar(&o.holdTime, "hold-time", 90*time.Second, "BGP hold time to propose")
	fs.DurationVar(&o.readyTimeout, "ready-timeout", 5*time.Minute, "be ready after this time though peers or files are still loading; 0 waits for ever")
}

func (a *app) serveCommand() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Learn routes and answer lookups over HTTP until interrupted",
		Long: `serve learns routes from BGP peers (it never announces any) and route files, and answers
lookups over HTTP. It prints its URL once it listens. /healthz is 200 from then on, /readyz
once all peers and files have finished their first load.

With --strict a route file with anything wrong in it ends the service at its start.`,
		Example: `  ribwarp serve --listen 127.0.0.1:8080 --rib table.mrt.gz
  ribwarp serve --asn 64500 --router-id 192.0.2.10 --bgp-listen 0.0.0.0:179 \
      --peer 192.0.2.1,asn=64501 --peer 192.0.2.2,asn=64502,passive
  ribwarp serve --config ribwarp.toml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.startService(cmd.Context(), &o)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(a.stdout, "ribwarp serves %s\n", s.url()); err != nil {
				s.stop()
				return fmt.Errorf("write: %w", err)
			}
			s.learn()
			return s.wait()
		},
	}
	o.flags(cmd.Flags())
	return cmd
}

// bgpConfig checks what sessions need and gives their configuration. ok is false where there is
// no peer.
func (o *serveOptions) bgpConfig() (c bgp.Config, ok bool, err error) {
	if len(o.peers) == 0 {
		if len(o.bgpListen) > 0 {
			return c, false, usagef("--bgp-listen accepts only the peers named with --peer: name at least one")
		}
		return c, false, nil
	}
	c = bgp.Config{ASN: o.asn, Listen: o.bgpListen, HoldTime: o.holdTime}
	if c.RouterID, err = netip.ParseAddr(o.routerID); err != nil || !c.RouterID.Is4() {
		return c, false, usagef("--router-id %q: peers need an IPv4 address that identifies this router", o.routerID)
	}
	if o.asn == 0 {
		return c, false, usagef("--asn: peers need to know the AS number of this router")
	}
	for _, text := range o.peers {
		p, err := bgp.ParsePeer(text)
		if err != nil {
			return c, false, usagef("--peer: %w", err)
		}
		if p.Passive && len(o.bgpListen) == 0 {
			return c, false, usagef("--peer %q waits for the peer to connect: say where with --bgp-listen", text)
		}
		c.Peers = append(c.Peers, p)
	}
	return c, true, nil
}
