package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ribwarp/ribwarp/fixtures"
)

const (
	beforeList = "10.0.0.0/8 64500 192.0.2.1\n10.1.0.0/16 64501\n10.2.0.0/16 64502\n2001:db8::/32 64503\n"
	afterList  = "10.0.0.0/8 64500 192.0.2.1\n10.1.0.0/16 64509\n10.3.0.0/16\n2001:db8::/33 64503\n2001:db8::/32 64503\n"
)

func TestRIBDiff(t *testing.T) {
	before, after := file(t, "before.txt", beforeList), file(t, "after.txt", afterList)
	for _, c := range []struct {
		args   []string
		code   int
		stdout string
	}{
		{[]string{before, after}, 1, `- 10.1.0.0/16 path 64501 origin incomplete
+ 10.1.0.0/16 path 64509 origin incomplete
- 10.2.0.0/16 path 64502 origin incomplete
+ 10.3.0.0/16 origin incomplete
+ 2001:db8::/33 path 64503 origin incomplete
2 added, 1 removed, 1 changed
`},
		{[]string{after, before, "--family", "ipv6"}, 1, "- 2001:db8::/33 path 64503 origin incomplete\n0 added, 1 removed, 0 changed\n"},
		{[]string{"--summary", before, after}, 1, "2 added, 1 removed, 1 changed\n"},
		{[]string{"--summary", "--prefixes", before, after}, 1, "2 added, 1 removed, 0 changed\n"},
		{[]string{before, before}, 0, "0 added, 0 removed, 0 changed\n"},
		{[]string{"--json", before, before}, 0, `{"end":true,"changes":0,"added":0,"removed":0,"changed":0}` + "\n"},
		{[]string{"--json", "--family", "ipv6", before, after}, 1, `{"change":"added","prefix":"2001:db8::/33","from":null,"to":{"prefix":"2001:db8::/33","next_hop":null,"as_path":[64503],"origin_asns":[64503],"communities":[],"origin":"incomplete","med":null,"local_pref":null,"peer":"after.txt","path_id":0}}
{"end":true,"changes":1,"added":1,"removed":0,"changed":0}
`},
	} {
		code, stdout, stderr := call(t, "", append([]string{"rib", "diff"}, c.args...)...)
		if code != c.code || stdout != c.stdout {
			t.Errorf("%v: exit code %d, want %d; %s\ngot:\n%s\nwant:\n%s", c.args, code, c.code, stderr, stdout, c.stdout)
		}
	}
	if code, stdout, _ := call(t, afterList, "rib", "diff", "-", after); code != 0 {
		t.Errorf("stdin: exit code %d, %s", code, stdout)
	}
}

// Trouble is exit code 2, as of diff(1): 1 says that there are differences.
func TestRIBDiffInTrouble(t *testing.T) {
	list, bad := file(t, "list.txt", beforeList), file(t, "bad.txt", beforeList+"10.0.0.0/33\n")
	for _, c := range []struct {
		args   []string
		stderr string
	}{
		{[]string{list, filepath.Join(t.TempDir(), "missing")}, "missing: no such file"},
		{[]string{list}, "accepts 2 arg(s), received 1"},
		{[]string{list, list, "--family", "ipv5"}, `--family "ipv5": use ipv4 or ipv6`},
		{[]string{"-", "-"}, "both files are stdin"},
		{[]string{"--strict", list, bad}, "10.0.0.0/33"},
	} {
		if code, stdout, stderr := call(t, "", append([]string{"rib", "diff"}, c.args...)...); code != exitTrouble || stdout != "" || !strings.Contains(stderr, c.stderr) {
			t.Errorf("%v: exit code %d, %q, %s", c.args, code, stdout, stderr)
		}
	}
}

// A dump and the list that was made of it have the same prefixes, whatever else they tell.
func TestRIBDiffOfADumpAndAList(t *testing.T) {
	table := fixtures.Generate(7, 3000, 700)
	var dump, list bytes.Buffer
	z := gzip.NewWriter(&dump)
	if err := fixtures.WriteMRT(z, table, 3); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := fixtures.WriteList(&list, table); err != nil {
		t.Fatal(err)
	}
	mrt, text := file(t, "table.mrt.gz", dump.String()), file(t, "table.txt", list.String())
	if code, stdout, stderr := call(t, "", "rib", "diff", "--prefixes", mrt, text); code != 0 {
		t.Errorf("exit code %d: %s %s", code, stdout, stderr)
	}
	if code, stdout, _ := call(t, "", "rib", "diff", "--summary", mrt, text); code != 1 || stdout != fmt.Sprintf("0 added, 0 removed, %d changed\n", len(table.Routes)) {
		t.Errorf("exit code %d: %s", code, stdout)
	}
}

// What the RPKI says comes from the files that the configuration names.
func TestServeTellsTheRPKIState(t *testing.T) {
	vrps := file(t, "vrps.json", `{"roas":[{"asn":"AS64501","prefix":"10.1.0.0/16","maxLength":16,"ta":"x"},{"asn":"AS1","prefix":"10.2.0.0/16","maxLength":16,"ta":"x"}]}`)
	list := file(t, "list.txt", beforeList)
	config := file(t, "ribwarp.toml", fmt.Sprintf("[serve]\nlisten = \"127.0.0.1:0\"\nrib = [%q]\npast-generations = 1\n[serve.rpki]\nfiles = [%q]\n", list, vrps))
	url, stop := serve(t, "--config", config)
	defer stop()
	await(t, url+"/readyz")
	awaitText(t, url+"/api/v1/routes/10.1.0.0/16?include=rpki", `"rpki":"valid"},"vrps":[{"prefix":"10.1.0.0/16","max_length":16,"asn":64501}]}`)
	awaitText(t, url+"/api/v1/routes?rpki=invalid", `{"prefix":"10.2.0.0/16"`)
	awaitText(t, url+"/api/v1/rpki/validate?prefix=10.0.0.0/8&origin=64500", `"state":"not-found","vrps":[]`)
	awaitText(t, url+"/api/v1/generations", `"newest":true`)
	without, stopWithout := serve(t, "--listen", "127.0.0.1:0", "--rib", list)
	defer stopWithout()
	await(t, without+"/readyz")
	awaitText(t, without+"/api/v1/routes/10.1.0.0/16?include=rpki", `"rpki":null},"vrps":null}`)
}

func TestPastIsNotNegative(t *testing.T) {
	for _, flag := range []string{"--past-generations=-1", "--past-interval=-1s"} {
		if code, _, stderr := call(t, "", "serve", "--listen", "127.0.0.1:0", flag); code != exitUsage || !strings.Contains(stderr, "it is not negative") {
			t.Errorf("%s: exit code %d: %s", flag, code, stderr)
		}
	}
}
