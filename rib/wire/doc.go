// Package wire turns the bytes of BGP UPDATE messages into rib.Update. Sessions and dump files
// share it.
//
// Path attributes and prefixes are decoded by gobgp's codec, one by one and under recover, so
// that bytes that make the codec panic cost no more than RFC 7606 says their attribute is
// worth. Where the codec's judgement is not that of RFC 7606, in flags, lengths and extended
// communities, the judgement is made here. What is read of a message follows RFC 4271, RFC 4760 (IPv4 and IPv6 unicast), RFC 6793
// (4-byte AS numbers), RFC 7911 (ADD-PATH) and RFC 8950 (IPv4 prefixes with IPv6 next hops).
package wire
