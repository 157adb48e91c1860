package rpki

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// What validators write, as far as it matters.
const (
	rpkiClientJSON = `{
	"metadata": {"buildmachine": "example", "buildtime": "2026-05-11T00:00:00Z", "roas": 3},
	"roas": [
		{ "asn": 64500, "prefix": "192.0.2.0/24", "maxLength": 24, "ta": "test", "expires": 1800000000 },
		{ "asn": 64501, "prefix": "2001:db8::/32", "maxLength": 48, "ta": "test", "expires": 1800000000 },
		{ "asn": 64502, "prefix": "203.0.113.0/24", "maxLength": 24, "ta": "test", "expires": 1700000000 },
		{ "asn": 0, "prefix": "198.51.100.0/22", "maxLength": 24, "ta": "test", "expires": 1800000000 }
	],
	"bgpsec_keys": [{"asn": 1, "ski": "00"}],
	"aspas": []
}`
	routinatorJSON = `{"metadata":{"generated":1,"generatedTime":"2026-05-11T00:00:00Z"},"roas":[
  { "asn": "AS64500", "prefix": "192.0.2.0/24", "maxLength": 24, "ta": "test" },
  { "asn": "AS64501", "prefix": "2001:db8::/32", "maxLength": 48, "source": [ { "type": "roa", "uri": "rsync://x" } ] },
  { "asn": "0", "prefix": "198.51.100.0/22", "maxLength": 24, "ta": "test" }
]}`
	rpkiClientCSV = "ASN,IP Prefix,Max Length,Trust Anchor,Expires\nAS64500,192.0.2.0/24,24,test,1800000000\nAS64502,203.0.113.0/24,24,test,1700000000\n" +
		"AS64501,2001:db8::/32,48,test,1800000000\nAS0,198.51.100.0/22,24,test,1800000000\n"
	validatorCSV = "\"URI\",\"ASN\",\"IP Prefix\",\"Max Length\",\"Not Before\",\"Not After\"\r\n\"rsync://x\",\"AS64500\",\"192.0.2.0/24\",\"\",\"2026-01-01 00:00:00\",\"2027-01-01 00:00:00\"\r\n" +
		"\"rsync://x\",\"AS64501\",\"2001:db8::/32\",\"48\",\"\",\"\"\r\n\"rsync://x\",\"AS0\",\"198.51.100.0/22\",\"24\",\"\",\"\"\r\n"
	plainCSV = "\xef\xbb\xbf# my own\n64500, 192.0.2.0/24\n\nas64501, 2001:db8::/32, 48\n0,198.51.100.0/22,24\n"
)

func TestReadFormats(t *testing.T) {
	for name, x := range map[string]struct {
		text    string
		expired int
	}{
		"rpki-client's JSON": {rpkiClientJSON, 1}, "Routinator's JSON": {routinatorJSON, 0}, "rpki-client's CSV": {rpkiClientCSV, 1},
		"validator's CSV": {validatorCSV, 0}, "plain CSV": {plainCSV, 0},
	} {
		f, err := read(strings.NewReader(x.text), time.Unix(1750000000, 0))
		if err != nil || f.Expired != x.expired || !slices.Equal(f.VRPs, []VRP{vrpA, vrpB, vrpC}) {
			t.Errorf("%s: %v, %d expired, error %v", name, f.VRPs, f.Expired, err)
		}
	}
}

func TestReadErrors(t *testing.T) {
	roas := func(entries string) string {
		return `{"roas":[{"asn":1,"prefix":"10.0.0.0/8","maxLength":8},` + entries + `]}`
	}
	for _, x := range []struct{ text, want string }{
		{"", "the file is empty"},
		{" \n", "the file is empty"},
		{roas(`{"asn":-1,"prefix":"10.0.0.0/8","maxLength":8}`), `entry 2 of roas: `},
		{roas(`{"asn":"AS4294967296","prefix":"10.0.0.0/8","maxLength":8}`), `"AS4294967296" is no AS number`},
		{roas(`{"asn":"AS","prefix":"10.0.0.0/8","maxLength":8}`), `"AS" is no AS number`},
		{roas(`{"asn":1.5,"prefix":"10.0.0.0/8","maxLength":8}`), `"1.5" is no AS number`},
		{roas(`{"prefix":"10.0.0.0/8","maxLength":8}`), "entry 2 of roas: asn is missing"},
		{roas(`{"asn":null,"prefix":"10.0.0.0/8","maxLength":8}`), "entry 2 of roas: asn is missing"},
		{roas(`{"asn":1,"maxLength":8}`), `entry 2 of roas: "" is no prefix`},
		{roas(`{"asn":1,"prefix":"10.0.0.0/33","maxLength":8}`), `entry 2 of roas: "10.0.0.0/33" is no prefix`},
		{roas(`{"asn":1,"prefix":"10.0.0.1/8","maxLength":8}`), `entry 2 of roas: prefix 10.0.0.1/8 has host bits`},
		{roas(`{"asn":1,"prefix":"10.0.0.0/8","maxLength":7}`), `entry 2 of roas: maximum length 7`},
		{roas(`{"asn":1,"prefix":"10.0.0.0/8","maxLength":300}`), `entry 2 of roas: byte`},
		{roas(`7`), `entry 2 of roas: byte`},
		{`{"roas":{}}`, `"roas" is no array`},
		{`{"roas":[],"roas":[]}`, `two arrays`},
		{`{"vrps":[]}`, `there is no array "roas"`},
		{`{"roas":[]}x`, `something follows`},
		{`{"roas":[]}{"roas":[]}`, `something follows`},
		{`{"roas":[{"asn":1`, `the file ends in the middle`},
		{`{"roas":[`, `the file ends in the middle`},
		{`{"roas":[]`, `the file ends in the middle`},
		{`{"a":`, `the file ends in the middle`},
		{`{"roas"!`, `byte`},
		{"ASN,IP Prefix,Max Length\nAS1,10.0.0.0/8,8\n\nAS2,10.0.0.0/8,x\n", `line 4: "x" is no maximum length`},
		{"AS1,10.0.0.0/8,8\nASX,10.0.0.0/8,8\n", `line 2: "ASX" is no AS number`},
		{"AS1\n", "line 1: there is no prefix"},
		{"AS1,10.0.0.0/8,33\n", "line 1: maximum length 33"},
		{"AS1,10.0.0.0,8\n", `line 1: "10.0.0.0" is no prefix`},
		{"ASN,Prefix,Expires\n1,10.0.0.0/8,soon\n", `line 2: "soon" is no time`},
		{"AS1,10.0.0.0/8,\"8\n", "line 1"},
		{"<html>\n", `line 1: there is no prefix`},
	} {
		_, err := read(strings.NewReader(x.text), time.Now())
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%q: error %v, want %q", x.text, err, x.want)
		}
	}
}

func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vrps.csv")
	if _, err := ReadFile(path); err == nil {
		t.Error("a missing file is read")
	}
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(path); err == nil || !strings.Contains(err.Error(), "VRPs of "+path+": line 1") {
		t.Errorf("error %v", err)
	}
	if err := os.WriteFile(path, []byte(plainCSV), 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err := ReadFile(path); err != nil || len(f.VRPs) != 3 {
		t.Errorf("%v, error %v", f, err)
	}
}
