// Package ribtest has what tests of several packages of rib share: a log that can be asked, free
// ports, GoBGP as a peer, and namespaces that a test binary runs in. Only tests import it.
package ribtest
