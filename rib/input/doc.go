// Package input loads route files into a RIB: MRT files (package mrt) and text lists (package
// prefixlist), plain or compressed with gzip, bzip2, xz or zstd. Both are told by content, not
// by name.
//
//	input.go      Open, Load, Options
//	report.go     what a load says about itself
//	compress.go   compressions
//	uncompress.go a compressed stream for readers of other things
//	format.go     MRT, list or neither
//	list.go       a text list as a peer
//
// Bad input loses nothing else: bad lines and records are skipped and reported, and of a file
// that breaks off everything before the break is kept.
package input
