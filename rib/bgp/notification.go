package bgp

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jwhited/corebgp"
	"github.com/osrg/gobgp/v3/pkg/packet/bgp"
)

// A Notification is a NOTIFICATION message that ended a session.
type Notification struct {
	Sent          bool // by us
	Code, Subcode uint8
	Message       string // what the peer's operator has to say (RFC 9003)
	Time          time.Time
}

// String is the notification as a line for people.
func (n *Notification) String() string {
	what := (&corebgp.Notification{Code: n.Code, Subcode: n.Subcode}).Error()
	who := "the peer has sent"
	if n.Sent {
		who = "we have sent"
	}
	if n.Message == "" {
		return fmt.Sprintf("%s %s", who, what)
	}
	return fmt.Sprintf("%s %s: %q", who, what, n.Message)
}

// shutdownMessage reads the text that comes with an administrative shutdown or reset.
func shutdownMessage(n *Notification, data []byte) string {
	if n.Code != bgp.BGP_ERROR_CEASE || n.Subcode != bgp.BGP_ERROR_SUB_ADMINISTRATIVE_SHUTDOWN && n.Subcode != bgp.BGP_ERROR_SUB_ADMINISTRATIVE_RESET {
		return ""
	}
	if len(data) == 0 || len(data) < 1+int(data[0]) || !utf8.Valid(data[1:1+int(data[0])]) {
		return ""
	}
	return strings.TrimSpace(string(data[1 : 1+int(data[0])]))
}
