package rpki

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"
)

// A File is what a file of VRPs holds.
type File struct {
	VRPs    []VRP // in the order of the file
	Expired int   // those left out because their time was over
}

// ReadFile reads a file of VRPs as validators write them: JSON with an array "roas" (rpki-client,
// Routinator, OctoRPKI) or CSV. A VRP that says when it expires is left out from then on.
//
// Any entry that cannot be used is an error that names it: half a list would let in what the rest
// of it forbids.
func ReadFile(path string) (File, error) {
	info, err := os.Stat(path) // before it is opened, which waits where it is a pipe
	switch {
	case err != nil:
		return File{}, fmt.Errorf("VRPs: %w", err)
	case !info.Mode().IsRegular():
		return File{}, fmt.Errorf("VRPs of %s: it is no regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return File{}, fmt.Errorf("VRPs: %w", err)
	}
	defer func() { _ = f.Close() }()
	found, err := read(f, time.Now())
	if err != nil {
		return File{}, fmt.Errorf("VRPs of %s: %w", path, err)
	}
	return found, nil
}

// read tells the formats apart by the first character.
func read(r io.Reader, now time.Time) (File, error) {
	b := bufio.NewReaderSize(r, 64<<10)
	for {
		c, err := b.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			return File{}, errors.New("the file is empty")
		case err != nil:
			return File{}, err
		}
		if strings.IndexByte(" \t\r\n\xef\xbb\xbf", c) >= 0 {
			continue
		}
		if err := b.UnreadByte(); err != nil {
			return File{}, err
		}
		if c == '{' {
			return readJSON(b, now)
		}
		return readCSV(b, now)
	}
}

// add takes one entry in.
func (f *File) add(v VRP, expires int64, now time.Time) error {
	if err := v.check(); err != nil {
		return err
	}
	if expires != 0 && expires <= now.Unix() {
		f.Expired++
		return nil
	}
	if len(f.VRPs) == maxEdits {
		return fmt.Errorf("there are more than %d VRPs", maxEdits)
	}
	f.VRPs = append(f.VRPs, v)
	return nil
}

// An entry is one of "roas". Validators add more to it.
type entry struct {
	ASN       *asNumber `json:"asn"`
	Prefix    string    `json:"prefix"`
	MaxLength *uint8    `json:"maxLength"` // the prefix's length where it is not there
	Expires   int64     `json:"expires"`   // seconds since 1970
}

// asNumber is 64496, "64496" or "AS64496".
type asNumber uint32

func (a *asNumber) UnmarshalJSON(b []byte) error {
	n, err := parseAS(strings.Trim(string(b), `"`))
	*a = asNumber(n)
	return err
}

func parseAS(s string) (uint32, error) {
	digits := s
	if len(s) > 2 && strings.EqualFold(s[:2], "AS") {
		digits = s[2:]
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is no AS number", s)
	}
	return uint32(n), nil
}

func readJSON(r io.Reader, now time.Time) (File, error) {
	var f File
	d := json.NewDecoder(r)
	at := func(err error) error {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return errors.New("the file ends in the middle")
		}
		return fmt.Errorf("byte %d: %w", d.InputOffset(), err)
	}
	if _, err := d.Token(); err != nil { // the {
		return f, at(err)
	}
	there := false
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return f, at(err)
		}
		if key != "roas" {
			var other json.RawMessage
			if err := d.Decode(&other); err != nil {
				return f, at(err)
			}
			continue
		}
		if there {
			return f, errors.New(`there are two arrays "roas"`)
		}
		there = true
		if open, err := d.Token(); err != nil {
			return f, at(err)
		} else if open != json.Delim('[') {
			return f, errors.New(`"roas" is no array`)
		}
		for n := 1; d.More(); n++ {
			var e entry
			if err := d.Decode(&e); err != nil {
				return f, fmt.Errorf("entry %d of roas: %w", n, at(err))
			}
			if err := f.addEntry(e, now); err != nil {
				return f, fmt.Errorf("entry %d of roas: %w", n, err)
			}
		}
		if _, err := d.Token(); err != nil { // the ]
			return f, at(err)
		}
	}
	if _, err := d.Token(); err != nil { // the }
		return f, at(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return f, errors.New("something follows the end of the JSON text")
	}
	if !there {
		return f, errors.New(`there is no array "roas": this is not the JSON of a validator`)
	}
	return f, nil
}

func (f *File) addEntry(e entry, now time.Time) error {
	if e.ASN == nil {
		return errors.New("asn is missing")
	}
	v, err := parseVRP(e.Prefix, uint32(*e.ASN))
	if err != nil {
		return err
	}
	if e.MaxLength != nil {
		v.MaxLen = *e.MaxLength
	}
	return f.add(v, e.Expires, now)
}

// parseVRP reads a prefix; the maximum length is its own.
func parseVRP(prefix string, asn uint32) (VRP, error) {
	p, err := netip.ParsePrefix(prefix)
	if err != nil {
		return VRP{}, fmt.Errorf("%q is no prefix", prefix)
	}
	return VRP{Prefix: p, MaxLen: uint8(p.Bits()), ASN: asn}, nil
}

// columns are where a CSV file has what; -1 for nowhere.
type columns struct{ asn, prefix, maxLength, expires int }

// columnsOf reads a heading. ok is false for a line that is none.
func columnsOf(line []string) (c columns, ok bool) {
	c = columns{-1, -1, -1, -1}
	for i, name := range line {
		switch strings.ToLower(strings.NewReplacer(" ", "", "_", "", "-", "").Replace(name)) {
		case "asn", "as":
			c.asn = i
		case "ipprefix", "prefix":
			c.prefix = i
		case "maxlength", "maxlen":
			c.maxLength = i
		case "expires":
			c.expires = i
		}
	}
	return c, c.asn >= 0 && c.prefix >= 0
}

func readCSV(r io.Reader, now time.Time) (File, error) {
	var f File
	lines := csv.NewReader(r)
	lines.Comment, lines.FieldsPerRecord, lines.ReuseRecord, lines.TrimLeadingSpace = '#', -1, true, true
	c := columns{0, 1, 2, -1} // without a heading
	for first := true; ; first = false {
		line, err := lines.Read()
		switch {
		case errors.Is(err, io.EOF):
			return f, nil
		case err != nil:
			return f, err // names the line
		}
		if first {
			if heading, ok := columnsOf(line); ok {
				c = heading
				continue
			}
		}
		if err := f.addLine(line, c, now); err != nil {
			number, _ := lines.FieldPos(0)
			return f, fmt.Errorf("line %d: %w", number, err)
		}
	}
}

func (f *File) addLine(line []string, c columns, now time.Time) error {
	field := func(i int) string {
		if i < 0 || i >= len(line) {
			return ""
		}
		return strings.TrimSpace(line[i])
	}
	if len(line) <= max(c.asn, c.prefix) {
		return errors.New("there is no prefix: a line is AS number, prefix, maximum length, or what the heading says")
	}
	asn, err := parseAS(field(c.asn))
	if err != nil {
		return err
	}
	v, err := parseVRP(field(c.prefix), asn)
	if err != nil {
		return err
	}
	if s := field(c.maxLength); s != "" {
		n, err := strconv.ParseUint(s, 10, 8)
		if err != nil {
			return fmt.Errorf("%q is no maximum length", s)
		}
		v.MaxLen = uint8(n)
	}
	var expires int64
	if s := field(c.expires); s != "" {
		if expires, err = strconv.ParseInt(s, 10, 64); err != nil {
			return fmt.Errorf("%q is no time in seconds since 1970", s)
		}
	}
	return f.add(v, expires, now)
}
