package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// call runs the program in this process and gives its exit code and output.
func call(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = runContext(context.Background(), args, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

// mustCall is call for what must end with exit code 0.
func mustCall(t *testing.T, stdin string, args ...string) (stdout, stderr string) {
	t.Helper()
	code, stdout, stderr := call(t, stdin, args...)
	if code != exitOK {
		t.Fatalf("ribwarp %s: exit code %d\n%s%s", strings.Join(args, " "), code, stdout, stderr)
	}
	return stdout, stderr
}

// file writes a file for one test.
func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

const testList = `# prefix, origin AS, next hop
10.0.0.0/8 64500 192.0.2.1
10.1.0.0/16 64501 192.0.2.2
2001:db8::/32 64502 2001:db8::1
198.51.100.0/24
`

func TestWrongUseIsExitCode2(t *testing.T) {
	list := file(t, "list.txt", testList)
	for _, c := range []struct{ name, args, want string }{
		{"unknown command", "fly", "fly"},
		{"unknown flag", "lookup --colour", "--colour"},
		{"no address", "lookup --rib " + list, "at least 1 arg"},
		{"no rib", "lookup 10.0.0.1", "--rib"},
		{"unknown output format", "lookup --rib " + list + " --format xml 10.0.0.1", `--format "xml"`},
		{"strides that do not sum", "lookup --strides4 16,8 --rib " + list + " 10.0.0.1", "--strides4"},
		{"strides that are no numbers", "lookup --strides6 a --rib " + list + " 10.0.0.1", "--strides6"},
		{"unknown flavor", "rib info --flavor vanilla " + list, `--flavor "vanilla"`},
		{"unknown engine", "bench --engine warp --rib " + list, `--engine "warp"`},
		{"devices that are no numbers", "bench --engine cuda --devices first --rib " + list, `--devices "first"`},
		{"devices twice", "bench --engine cuda --devices 1,1 --rib " + list, `--devices "1,1"`},
		{"rib without command", "rib", "needs one of its commands"},
		{"log level", "version --log-level loud", `--log-level "loud"`},
		{"log format", "version --log-format xml", `--log-format "xml"`},
		{"batch csv without column", "batch --rib " + list + " --in flows.csv", "--column"},
		{"batch jsonl without field", "batch --rib " + list + " --in flows.jsonl.gz", "--field"},
		{"batch column of lines", "batch --rib " + list + " --in x.txt --format lines --column 1", "--column"},
		{"batch unknown columns", "batch --rib " + list + " --in x.txt --columns prefix,colour", `"colour"`},
		{"batch both from stdin", "batch --rib - --in -", "both"},
		{"batch compressed output", "batch --rib " + list + " --in x --out y.gz", "not compressed"},
		{"bench keys", "bench --rib " + list + " --keys hot", `--keys "hot"`},
		{"bench few keys", "bench --rib " + list + " --count 10", "--count 10"},
		{"gen format", "gen --format xml", `--format "xml"`},
		{"gen family", "gen addresses --rib " + list + " --family ipx", `--family "ipx"`},
		{"serve peer", "serve --asn 64500 --router-id 192.0.2.1 --peer nobody", `peer "nobody"`},
		{"serve peer without AS", "serve --router-id 192.0.2.1 --peer 192.0.2.2,asn=64501", "--asn"},
		{"serve peer without id", "serve --asn 64500 --peer 192.0.2.2,asn=64501", "--router-id"},
		{"serve passive peer without port", "serve --asn 64500 --router-id 192.0.2.1 --peer 192.0.2.2,asn=64501,passive", "--bgp-listen"},
		{"serve address without port", "serve --listen 127.0.0.1", `--listen "127.0.0.1": missing port`},
		{"serve port out of range", "serve --listen 127.0.0.1:99999", `--listen "127.0.0.1:99999": "99999" is no port`},
		{"serve bulk bound", "serve --max-bulk=-1", "--max-bulk -1"},
		{"serve drain delay", "serve --drain-delay=-1s", "--drain-delay -1s"},
		{"serve trusted proxy", "serve --trusted-proxy nobody", `--trusted-proxy "nobody"`},
		{"serve trusted proxy of no length", "serve --trusted-proxy 10.0.0.0/99", `--trusted-proxy "10.0.0.0/99"`},
		{"serve ready timeout", "serve --ready-timeout -1s", "--ready-timeout -1s"},
		{"demo prefixes", "demo --prefixes 1", "--prefixes 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := call(t, "", strings.Fields(c.args)...)
			if code != exitUsage || stdout != "" || !strings.Contains(stderr, c.want) {
				t.Errorf("exit code %d, want %d and %q on stderr\nstdout %s\nstderr %s", code, exitUsage, c.want, stdout, stderr)
			}
		})
	}
}

func TestFailureIsExitCode1AndNamesTheThing(t *testing.T) {
	list := file(t, "list.txt", testList)
	noise := file(t, "noise.bin", "\x01\x02\x03 no routes here \xff")
	for _, c := range []struct{ name, args, want string }{
		{"missing route file", "lookup --rib /nowhere/x 10.0.0.1", "/nowhere/x"},
		{"route file of unknown type", "lookup --rib " + noise + " 10.0.0.1", noise},
		{"missing batch input", "batch --rib " + list + " --in /nowhere/y", "/nowhere/y"},
		{"batch input is a folder", "batch --rib " + list + " --in " + t.TempDir(), "is a directory"},
		{"output folder missing", "gen --ipv4 1 --ipv6 0 --out /nowhere/z", "/nowhere/z"},
		{"missing config", "version --config /nowhere/c.toml", "/nowhere/c.toml"},
		{"serve missing route file", "serve --listen 127.0.0.1:0 --rib /nowhere/x", "/nowhere/x"},
		{"no such column", "batch --rib " + list + " --column src --in " + list, `no column "src"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := call(t, "", strings.Fields(c.args)...)
			if code != exitFailed || stdout != "" || !strings.Contains(stderr, c.want) {
				t.Errorf("exit code %d, want %d and %q on stderr\nstdout %s\nstderr %s", code, exitFailed, c.want, stdout, stderr)
			}
		})
	}
}

func TestEveryCommandHasHelpWithExamples(t *testing.T) {
	for _, args := range []string{"", "serve", "demo", "lookup", "batch", "rib info", "gen", "gen addresses", "bench", "version"} {
		stdout, stderr := mustCall(t, "", append(strings.Fields(args), "--help")...)
		if !strings.Contains(stdout, "Examples:\n  ribwarp") || stderr != "" {
			t.Errorf("%q --help: %s%s", args, stdout, stderr)
		}
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if stdout, _ := mustCall(t, "", "completion", shell); !strings.Contains(stdout, "ribwarp") {
			t.Errorf("%s: %q", shell, stdout)
		}
	}
}

func TestVersion(t *testing.T) {
	if stdout, _ := mustCall(t, "", "version"); !strings.HasPrefix(stdout, "ribwarp ") {
		t.Errorf("%q", stdout)
	}
	if stdout, _ := mustCall(t, "", "version", "--json"); !strings.Contains(stdout, `"version":`) {
		t.Errorf("%q", stdout)
	}
}

func TestInterruptEndsACommandThatWaitsForStdin(t *testing.T) {
	list := file(t, "list.txt", testList)
	for _, args := range []string{"lookup --rib " + list + " -", "lookup --rib - 10.0.0.1", "batch --rib " + list + " --in -", "serve --listen 127.0.0.1:0 --rib -"} {
		t.Run(args, func(t *testing.T) {
			stdin, w := io.Pipe() // nothing is written to it
			defer func() { _ = w.Close() }()
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan int, 1)
			go func() { ended <- runContext(ctx, strings.Fields(args), stdin, io.Discard, io.Discard) }()
			time.Sleep(50 * time.Millisecond)
			cancel()
			select {
			case <-ended:
			case <-time.After(10 * time.Second):
				t.Fatal("it goes on")
			}
		})
	}
}

func TestACommandThatDoesNotEndIsLeftBehind(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	block := make(chan int)
	defer close(block)
	var stderr bytes.Buffer
	if code := orGiveUp(ctx, func() time.Duration { return time.Millisecond }, &stderr, func() int { return <-block }); code != exitFailed || !strings.Contains(stderr.String(), "interrupted") {
		t.Errorf("exit code %d, stderr %q", code, stderr.String())
	}
}
