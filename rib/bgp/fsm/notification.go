package fsm

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Codes and subcodes of NOTIFICATIONs that are sent from here.
const (
	codeHeader   = 1 // RFC 4271, 6.1
	codeOpen     = 2 // RFC 4271, 6.2
	codeHoldTime = 4 // RFC 4271, 6.5
	codeFSM      = 5 // RFC 6608
	codeCease    = 6 // RFC 4486
	codeRefresh  = 7 // RFC 7313, 5

	headerNotSynchronized = 1
	headerBadLength       = 2
	headerBadType         = 3

	openUnspecific            = 0
	openUnsupportedVersion    = 1
	openBadPeerAS             = 2
	openBadIdentifier         = 3
	openUnsupportedParameter  = 4
	openUnacceptableHoldTime  = 6
	openUnsupportedCapability = 7  // RFC 5492, 5
	openRoleMismatch          = 11 // RFC 9234, 4.2

	ceaseMaxPrefixes  = 1
	ceaseShutdown     = 2 // RFC 9003
	ceaseDeconfigured = 3
	ceaseReset        = 4 // RFC 9003
	ceaseHardReset    = 9 // RFC 8538, 3

	refreshBadLength = 1
)

// A Notification is a NOTIFICATION message, which ends a session. It is an error, so that it
// can be the cause of a cancelled context.
type Notification struct {
	Sent          bool // by us
	Code, Subcode uint8
	Data          []byte
	// Message is what one operator has to say to the other. It goes with Cease, Administrative
	// Shutdown and Administrative Reset (RFC 9003), in at most 255 bytes, unless there is Data;
	// with others it stays here.
	Message string
	Time    time.Time // when it was sent or received

	detail string // what was wrong with the peer's message, for people
}

// refuse makes a NOTIFICATION that says what is wrong with a message of the peer.
func refuse(code, subcode uint8, data []byte, format string, args ...any) *Notification {
	return &Notification{Code: code, Subcode: subcode, Data: data, detail: fmt.Sprintf(format, args...)}
}

// Error is String.
func (n *Notification) Error() string { return n.String() }

// String is the notification as a line for people.
func (n *Notification) String() string {
	who := "the peer has sent"
	if n.Sent {
		who = "we have sent"
	}
	what := name(n.Code, n.Subcode)
	if code, subcode, _, ok := n.wrapped(); ok {
		what += " of " + name(code, subcode)
	}
	if n.Message != "" {
		return fmt.Sprintf("%s %s: %q", who, what, n.Message)
	}
	return who + " " + what
}

// codes and subcodes are the registered names. Index 0 of subcodes is what is not specific.
var (
	codes = [...]string{
		codeHeader: "Message Header Error", codeOpen: "OPEN Message Error", 3: "UPDATE Message Error", codeHoldTime: "Hold Timer Expired",
		codeFSM: "Finite State Machine Error", codeCease: "Cease", codeRefresh: "ROUTE-REFRESH Message Error", 8: "Send Hold Timer Expired",
	}
	subcodes = [len(codes)][]string{
		codeHeader: {1: "Connection Not Synchronized", 2: "Bad Message Length", 3: "Bad Message Type"},
		codeOpen: {1: "Unsupported Version Number", 2: "Bad Peer AS", 3: "Bad BGP Identifier", 4: "Unsupported Optional Parameter",
			6: "Unacceptable Hold Time", 7: "Unsupported Capability", 11: "Role Mismatch"},
		3: {1: "Malformed Attribute List", 2: "Unrecognized Well-known Attribute", 3: "Missing Well-known Attribute", 4: "Attribute Flags Error",
			5: "Attribute Length Error", 6: "Invalid ORIGIN Attribute", 8: "Invalid NEXT_HOP Attribute", 9: "Optional Attribute Error",
			10: "Invalid Network Field", 11: "Malformed AS_PATH"},
		codeFSM: {1: "Unexpected Message in OpenSent", 2: "Unexpected Message in OpenConfirm", 3: "Unexpected Message in Established"},
		codeCease: {1: "Maximum Number of Prefixes Reached", 2: "Administrative Shutdown", 3: "Peer De-configured", 4: "Administrative Reset",
			5: "Connection Rejected", 6: "Other Configuration Change", 7: "Connection Collision Resolution", 8: "Out of Resources",
			9: "Hard Reset", 10: "BFD Down"},
		codeRefresh: {1: "Invalid Message Length"},
	}
)

// name is the name of a code and subcode with their numbers.
func name(code, subcode uint8) string {
	numbers := fmt.Sprintf(" (%d/%d)", code, subcode)
	if code == 0 || int(code) >= len(codes) {
		return "NOTIFICATION" + numbers
	}
	if sub := subcodes[code]; int(subcode) < len(sub) && sub[subcode] != "" {
		return codes[code] + ", " + sub[subcode] + numbers
	}
	return codes[code] + numbers
}

// parseNotification decodes the body of a NOTIFICATION, which has at least two bytes.
func parseNotification(body []byte) *Notification {
	n := &Notification{Code: body[0], Subcode: body[1], Data: append([]byte(nil), body[2:]...), Time: time.Now()}
	n.Message = communication(n.Code, n.Subcode, n.Data)
	if code, subcode, data, ok := n.wrapped(); ok {
		n.Message = communication(code, subcode, data)
	}
	return n
}

// isHardReset tells that routes are not to be kept over this one.
func (n *Notification) isHardReset() bool { return n.Code == codeCease && n.Subcode == ceaseHardReset }

// wrapped gives what a hard reset carries: the NOTIFICATION with the reason for it.
func (n *Notification) wrapped() (code, subcode uint8, data []byte, ok bool) {
	if !n.isHardReset() || len(n.Data) < 2 {
		return 0, 0, nil, false
	}
	return n.Data[0], n.Data[1], n.Data[2:], true
}

// hard makes a hard reset of a Cease after which the peer is not to keep our routes: where
// both sides know that NOTIFICATION need not end them (RFC 8538, 5).
func (n *Notification) hard() {
	if n.Code == codeCease && (n.Subcode == ceaseMaxPrefixes || n.Subcode == ceaseShutdown || n.Subcode == ceaseDeconfigured) {
		n.Data = append([]byte{n.Code, n.Subcode}, n.Data...)
		n.Subcode = ceaseHardReset
	}
}

// outgoing is the form in which a NOTIFICATION is sent. The one that it is made from may be
// the cause of several contexts, and stays as it is.
func (n *Notification) outgoing(hard bool) *Notification {
	out := *n
	out.Sent, out.Time = true, time.Now()
	if len(out.Data) == 0 && out.Message != "" && hasCommunication(n.Code, n.Subcode) {
		text := strings.ToValidUTF8(out.Message, "�")
		for len(text) > 255 {
			_, size := utf8.DecodeLastRuneInString(text)
			text = text[:len(text)-size]
		}
		out.Data = append([]byte{byte(len(text))}, text...)
	}
	if hard {
		out.hard()
	}
	if longest := maxMessage - headerLength - 2; len(out.Data) > longest {
		out.Data = out.Data[:longest]
	}
	return &out
}

// hasCommunication tells whether the data are a text (RFC 9003, 2).
func hasCommunication(code, subcode uint8) bool {
	return code == codeCease && (subcode == ceaseShutdown || subcode == ceaseReset)
}

// communication reads the text that comes with an administrative shutdown or reset; one that
// is none is left out.
func communication(code, subcode uint8, data []byte) string {
	if !hasCommunication(code, subcode) || len(data) == 0 || len(data) < 1+int(data[0]) {
		return ""
	}
	text := data[1 : 1+int(data[0])]
	if !utf8.Valid(text) {
		return ""
	}
	return strings.TrimSpace(string(text))
}
