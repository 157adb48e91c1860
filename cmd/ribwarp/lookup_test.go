package main

import (
	"strings"
	"testing"
)

func TestLookupJSON(t *testing.T) {
	list := file(t, "list.txt", testList)
	more := file(t, "more.txt", "10.1.2.0/24\n")
	stdout, _ := mustCall(t, "", "lookup", "--rib", list, "--rib", more, "--format", "json",
		"10.1.9.9", "10.1.2.9", "::ffff:10.2.0.1", "2001:db8::1", "192.0.2.1")
	want := `{"ip":"10.1.9.9","prefix":"10.1.0.0/16","next_hop":"192.0.2.2","as_path":[64501],"origin_asns":[64501],"communities":[],"generation":1}
{"ip":"10.1.2.9","prefix":"10.1.2.0/24","next_hop":null,"as_path":[],"origin_asns":[],"communities":[],"generation":1}
{"ip":"10.2.0.1","prefix":"10.0.0.0/8","next_hop":"192.0.2.1","as_path":[64500],"origin_asns":[64500],"communities":[],"generation":1}
{"ip":"2001:db8::1","prefix":"2001:db8::/32","next_hop":"2001:db8::1","as_path":[64502],"origin_asns":[64502],"communities":[],"generation":1}
{"ip":"192.0.2.1","prefix":null,"next_hop":null,"as_path":[],"origin_asns":[],"communities":[],"generation":1}
`
	if stdout != want {
		t.Errorf("got:\n%s\nwant:\n%s", stdout, want)
	}
}

func TestLookupText(t *testing.T) {
	list := file(t, "list.txt", testList)
	stdout, _ := mustCall(t, "10.1.9.9\n\n 198.51.100.7\r\n192.0.2.1", "lookup", "--rib", list, "-")
	want := `IP            PREFIX           NEXT HOP   ORIGIN  AS PATH
10.1.9.9      10.1.0.0/16      192.0.2.2  64501   64501
198.51.100.7  198.51.100.0/24  -          -       -
192.0.2.1     no route         -          -       -
`
	if stdout != want {
		t.Errorf("got:\n%s\nwant:\n%s", stdout, want)
	}
}

func TestLookupAnswersTheRestOfBadAddresses(t *testing.T) {
	list := file(t, "list.txt", testList)
	code, stdout, stderr := call(t, "", "lookup", "--rib", list, "--format", "json", "10.0.0.300", "10.0.0.1", "fe80::1%eth0")
	if code != exitFailed || strings.Count(stdout, "\n") != 1 || !strings.Contains(stdout, `"10.0.0.0/8"`) {
		t.Errorf("exit code %d, stdout %q", code, stdout)
	}
	if !strings.Contains(stderr, `"10.0.0.300"`) || !strings.Contains(stderr, `"fe80::1%eth0"`) {
		t.Errorf("stderr %q", stderr)
	}
}

func TestLookupStrictFailsOnProblemsButAnswers(t *testing.T) {
	list := file(t, "list.txt", testList+"10.0.0.0/33\n")
	if _, stderr := mustCall(t, "", "lookup", "--rib", list, "10.0.0.1"); !strings.Contains(stderr, "10.0.0.0/33") {
		t.Errorf("stderr %q", stderr)
	}
	code, stdout, stderr := call(t, "", "lookup", "--rib", list, "--strict", "--format", "json", "10.0.0.1")
	if code != exitFailed || !strings.Contains(stdout, `"10.0.0.0/8"`) || !strings.Contains(stderr, list) {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}
