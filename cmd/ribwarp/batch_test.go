package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBatchWritesTheFileWhole(t *testing.T) {
	list := file(t, "list.txt", testList)
	in := file(t, "in.txt", "10.1.2.3\r\nnobody\n2001:db8::5\n11.0.0.1")
	out := filepath.Join(t.TempDir(), "out.csv")
	stdout, stderr := mustCall(t, "", "batch", "--rib", list, "--in", in, "--out", out)
	want := "ip,prefix,origin_asns,next_hop\n10.1.2.3,10.1.0.0/16,64501,192.0.2.2\nnobody,,,\n2001:db8::5,2001:db8::/32,64502,2001:db8::1\n11.0.0.1,,,\n"
	if got := read(t, out); got != want || stdout != "" {
		t.Errorf("got:\n%s\nstdout %q", got, stdout)
	}
	if !strings.Contains(stderr, `1 of 4 records have no address, the first is record 2: "nobody"`) {
		t.Errorf("stderr %q", stderr)
	}
	if _, err := os.Stat(out + ".partial"); !os.IsNotExist(err) {
		t.Errorf("%s.partial: %v", out, err)
	}
}

func TestBatchStrictFailsAfterWriting(t *testing.T) {
	list := file(t, "list.txt", testList)
	code, stdout, stderr := call(t, "x\n10.0.0.1\n", "batch", "--rib", list, "--strict", "--columns", "prefix")
	if code != exitFailed || stdout != "ip,prefix\nx,\n10.0.0.1,10.0.0.0/8\n" || !strings.Contains(stderr, `record 1: "x"`) {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestBatchReadsCompressedInputByContent(t *testing.T) {
	list := file(t, "list.txt", testList)
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write([]byte("10.0.0.1\n"))
	_ = w.Close()
	stdout, _ := mustCall(t, packed.String(), "batch", "--rib", list, "--columns", "prefix")
	if stdout != "ip,prefix\n10.0.0.1,10.0.0.0/8\n" {
		t.Errorf("%q", stdout)
	}
	in := file(t, "cut.gz", packed.String()[:packed.Len()-6])
	out := filepath.Join(t.TempDir(), "out.csv")
	code, _, stderr := call(t, "", "batch", "--rib", list, "--in", in, "--out", out)
	if code != exitFailed || !strings.Contains(stderr, in) || !strings.Contains(stderr, out+".partial") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	if _, err := os.Stat(out); !os.IsNotExist(err) {
		t.Errorf("a truncated result has the name of a whole one: %v", err)
	}
}

func TestBatchTellsTheFormatByTheName(t *testing.T) {
	list := file(t, "list.txt", testList)
	for _, c := range []struct{ name, content, flags, want string }{
		{"in.csv", "a,src\n1,10.0.0.1\n", "--column src", "a,src,prefix\n1,10.0.0.1,10.0.0.0/8\n"},
		{"in.txt", "a,src\n1,10.0.0.1\n", "--column 2", "a,src,prefix\n1,10.0.0.1,10.0.0.0/8\n"},
		{"in.TSV", "a\tsrc\n1\t10.0.0.1\n", "--column src", "a\tsrc\tprefix\n1\t10.0.0.1\t10.0.0.0/8\n"},
		{"in.log", `{"a":{"b":"10.0.0.1"}}`, "--field a.b", `{"a":{"b":"10.0.0.1"},"route":{"prefix":"10.0.0.0/8"}}` + "\n"},
		{"in.csv", "10.0.0.1\n", "--format lines", "ip,prefix\n10.0.0.1,10.0.0.0/8\n"},
	} {
		args := append([]string{"batch", "--rib", list, "--columns", "prefix", "--in", file(t, c.name, c.content)}, strings.Fields(c.flags)...)
		if stdout, _ := mustCall(t, "", args...); stdout != c.want {
			t.Errorf("%s %s: %q, want %q", c.name, c.flags, stdout, c.want)
		}
	}
}
