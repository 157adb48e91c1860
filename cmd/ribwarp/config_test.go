package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestConfigSetsFlagsThatTheCommandLineLeavesAlone(t *testing.T) {
	list := file(t, "list.txt", testList)
	config := file(t, "ribwarp.toml", "log-level = \"error\"\n[lookup]\nrib = [\""+list+"\"]\nformat = \"json\"\n[serve]\nasn = 64500\n[rib.info]\njson = true\n")
	stdout, stderr := mustCall(t, "", "lookup", "--config", config, "10.0.0.1")
	if !strings.HasPrefix(stdout, `{"ip":"10.0.0.1","prefix":"10.0.0.0/8"`) || stderr != "" {
		t.Errorf("stdout %q, stderr %q", stdout, stderr)
	}
	stdout, _ = mustCall(t, "", "lookup", "--config", config, "--format", "text", "10.0.0.1")
	if !strings.HasPrefix(stdout, "IP ") {
		t.Errorf("the flag lost to the file: %q", stdout)
	}
	other := file(t, "other.txt", "192.0.2.0/24\n")
	stdout, _ = mustCall(t, "", "lookup", "--config", config, "--rib", other, "10.0.0.1")
	if !strings.Contains(stdout, `"prefix":null`) {
		t.Errorf("the file added to a flag that was given: %q", stdout)
	}
	stdout, _ = mustCall(t, "", "rib", "info", "--config", config, list)
	if !strings.HasPrefix(stdout, "{") {
		t.Errorf("[rib.info] was not applied: %q", stdout)
	}
}

func TestWrongConfigNamesTheKey(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"unknown key", "[serve]\nlisten-on = \"x\"\n", `"serve.listen-on"`},
		{"unknown key at the top", "listen = \"x\"\n", `"listen"`},
		{"key for all commands in a table", "[serve]\nlog-level = \"info\"\n", "above the first table"},
		{"unknown command", "[fly]\nx = 1\n", "[fly]"},
		{"unknown subcommand", "[rib.infos]\nx = 1\n", "[rib.infos]"},
		{"wrong type", "[version]\njson = \"perhaps\"\n", `"version.json"`},
		{"array for one value", "log-level = [\"info\", \"warn\"]\n", `"log-level"`},
		{"table in an array", "[version]\njson = [{a = 1}]\n", `"version.json"`},
		{"no TOML", "[version\n", "line 2"},
		{"config of config", "config = \"x\"\n", `"config"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := file(t, "ribwarp.toml", c.text)
			code, stdout, stderr := call(t, "", "version", "--config", config)
			if code != exitFailed || stdout != "" || !strings.Contains(stderr, c.want) || !strings.Contains(stderr, config) {
				t.Errorf("exit code %d, stdout %q, stderr %q, want %q", code, stdout, stderr, c.want)
			}
		})
	}
}

// testConfig has one of everything that the file may say of serve.
const testConfig = `
[serve]
listen = "127.0.0.1:0"
asn = 64500
router-id = "192.0.2.10"
bgp-listen = ["127.0.0.1:0"]

[[serve.peer]]
name = "edge1"
address = "192.0.2.1"
asn = 64501
import = "customers"
table = "blue"
max-prefix = 1000
passive = true
optional = false
md5 = "with, a comma"
hold-time = "30s"

[[serve.peer]]
prefix = "198.51.100.0/24"
limit = 5
asn = 64502

[[serve.table]]
name = "lists"

[serve.prefix-lists]
ours = ["192.0.2.0/24", "10.0.0.0/8 ge 9 le 24"]

[serve.policy.customers]
rpki = "reject-invalid"
then = "reject"
[[serve.policy.customers.terms]]
action = "accept"
prefix-lists = ["ours"]

[serve.rpki]
caches = ["127.0.0.1:3323"]

[serve.bmp]
listen = ["127.0.0.1:0"]
[[serve.bmp.router]]
name = "core"
address = "203.0.113.1"
table = "{router}:{rd}"
import = "accept"
stale-time = "5m"

[serve.snapshot]
file = "saved"
interval = "1m"
`

func TestCheckSaysWhatWouldRun(t *testing.T) {
	config := file(t, "ribwarp.toml", testConfig)
	stdout, _ := mustCall(t, "", "serve", "--config", config, "--check")
	for _, want := range []string{
		"AS 64500, router ID 192.0.2.10, listens at 127.0.0.1:0",
		"edge1: 192.0.2.1 AS 64501, table blue, imports customers",
		"198.51.100.0/24: up to 5 of 198.51.100.0/24 AS 64502, table default, imports nothing",
		"core: 203.0.113.1, table {router}:{rd}",
		"cache 127.0.0.1:3323", "customers", "blue: route files none", "lists: route files none", "saved",
		"IPv4 and IPv6, every 10m0s, trees of up to 128MiB, on GPUs 1GiB",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in:\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout, "comma") {
		t.Errorf("a password is shown:\n%s", stdout)
	}
	mustCall(t, "", "version", "--config", config) // other commands take the same file
	// A peer of the command line takes the place of all those of the file.
	stdout, _ = mustCall(t, "", "serve", "--config", config, "--check", "--peer", "203.0.113.9,asn=64500")
	if !strings.Contains(stdout, "203.0.113.9 AS 64500, table default, imports all") || strings.Contains(stdout, "edge1") {
		t.Errorf("--peer beside a file:\n%s", stdout)
	}
}

func TestPeersOfTheFileAreTextOrTables(t *testing.T) {
	const general = "[serve]\nasn = 64500\nrouter-id = \"192.0.2.10\"\n"
	for _, text := range []string{
		`peer = "192.0.2.1,asn=64501,name=a,import=accept"`,
		`peer = ["192.0.2.1,asn=64501,name=a,import=accept"]`,
		`peer = [{address = "192.0.2.1", asn = 64501, name = "a", import = "accept"}, "192.0.2.2,asn=64501"]`,
		"[[serve.peer]]\naddress = \"192.0.2.1\"\nasn = 64501\nname = \"a\"\nimport = \"accept\"",
	} {
		stdout, _ := mustCall(t, "", "serve", "--check", "--config", file(t, "ribwarp.toml", general+text+"\n"))
		if !strings.Contains(stdout, "a: 192.0.2.1 AS 64501, table default, imports accept\n") {
			t.Errorf("%s:\n%s", text, stdout)
		}
	}
}

func TestWrongSectionsNameFileAndKey(t *testing.T) {
	edge := "[[serve.peer]]\naddress = \"192.0.2.1\"\nasn = 64501\n"
	for _, c := range []struct{ name, text, want string }{
		{"unknown key of a peer", edge + "speed = 3\n", `serve.peer, number 1: 192.0.2.1: "speed" is unknown: there are active, address, asn`},
		{"peer without address", "[[serve.peer]]\nasn = 64501\n", "address or prefix"},
		{"peer with a length", "[[serve.peer]]\naddress = \"192.0.2.0/24\"\nasn = 64501\n", "an address has no length"},
		{"prefix without limit", "[[serve.peer]]\nprefix = \"192.0.2.0/24\"\nasn = 64501\n", "limit is missing"},
		{"number for a peer", "[serve]\npeer = [7]\n", "serve.peer, number 1"},
		{"list in a peer", edge + "import = [\"a\"]\n", "import must be text"},
		{"comma in a peer", edge + "name = \"a,b\"\n", "comma"},
		{"password without text", edge + "md5 = \"\"\n", "md5 is empty"},
		{"second password", edge + "md5 = \"a\"\nmd5-file = \"" + os.DevNull + "\"\n", "md5"},
		{"unknown policy", edge + "import = \"nobody\"\n", `"nobody"`},
		{"peer twice", edge + edge, "twice"},
		{"unknown key of a table", "[[serve.table]]\nname = \"a\"\nfile = \"b\"\n", `"serve.table.file"`},
		{"table without name", "[[serve.table]]\nrib = [\"a\"]\n", "serve.table"},
		{"table twice", "[[serve.table]]\nname = \"a\"\n[[serve.table]]\nname = \"a\"\n", "twice"},
		{"table that is no array", "[serve.table]\nname = \"a\"\n", "serve.table"},
		{"route file that is not there", "[[serve.table]]\nname = \"a\"\nrib = [\"/none/list.txt\"]\n", "/none/list.txt"},
		{"unknown key of a policy", "[serve.policy.p]\nthen = \"accept\"\nelse = \"reject\"\n", `"serve.policy.p.else"`},
		{"policy without end", "[serve.policy.p]\nrpki = \"reject-invalid\"\n", `policy "p"`},
		{"RPKI without source", "[serve.policy.p]\nrpki = \"reject-invalid\"\nthen = \"accept\"\n", "configure a cache"},
		{"unknown prefix list", "[serve.policy.p]\nthen = \"accept\"\n[[serve.policy.p.terms]]\naction = \"accept\"\nprefix-lists = [\"none\"]\n", "none"},
		{"prefix list", "[serve.prefix-lists]\nl = [\"10.0.0.1/8\"]\n", `prefix list "l"`},
		{"unknown key of RPKI", "[serve.rpki]\ncache = [\"a:1\"]\n", `"serve.rpki.cache"`},
		{"cache without port", "[serve.rpki]\ncaches = [\"127.0.0.1\"]\n", "HOST:PORT"},
		{"unknown key of BMP", "[serve.bmp]\nport = 1\n", `"serve.bmp.port"`},
		{"unknown key of a router", "[[serve.bmp.router]]\naddress = \"192.0.2.1\"\nasn = 1\n", `"serve.bmp.router.asn"`},
		{"router without listener", "[[serve.bmp.router]]\naddress = \"192.0.2.1\"\n", "192.0.2.1"},
		{"address of a router", "[[serve.bmp.router]]\naddress = \"192.0.2\"\n", "serve.bmp.router"},
		{"time without unit", "[[serve.bmp.router]]\naddress = \"192.0.2.1\"\nstale-time = 60\n", "60 is no time"},
		{"snapshot without file", "[serve.snapshot]\ninterval = \"1m\"\n", "file is missing"},
		{"unknown key of the snapshot", "[serve.snapshot]\npath = \"a\"\n", `"serve.snapshot.path"`},
		{"too many tables", "[[serve.table]]\nname = \"a\"\n[serve]\nmax-tables = 1\n", "max-tables"},
		{"check", "[serve]\ncheck = true\n", `"serve.check"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := c.text
			if !strings.Contains(text, "[serve]") {
				text = "[serve]\nasn = 64500\nrouter-id = \"192.0.2.10\"\n" + text
			}
			config := file(t, "ribwarp.toml", text)
			code, stdout, stderr := call(t, "", "serve", "--check", "--config", config)
			if code != exitFailed || stdout != "" || !strings.Contains(stderr, c.want) {
				t.Errorf("exit code %d, stdout %q, stderr %q, want %q", code, stdout, stderr, c.want)
			}
			if !strings.Contains(stderr, config) {
				t.Errorf("the file is not named: %q", stderr)
			}
		})
	}
}

// What --check finds beside: addresses to listen at, and files. It opens no socket and writes nothing.
func TestCheckLooksAtListenersAndFiles(t *testing.T) {
	const peers = "asn = 64500\nrouter-id = \"192.0.2.10\"\npeer = [\"192.0.2.1,asn=64501,passive\"]\n"
	dir := t.TempDir()
	vrps := file(t, "vrps.json", `{"roas":[{"asn":"AS64999","prefix":"8.8.8.1/24","maxLength":24}]}`)
	notOurs := file(t, "notes.txt", "something else")
	for _, c := range []struct{ name, text, want string }{
		{"no port", "listen = \"127.0.0.1\"\n", `key "serve.listen": "127.0.0.1": missing port`},
		{"port out of range", "listen = \"127.0.0.1:65536\"\n", `"65536" is no port`},
		{"no port at all", "listen = \"127.0.0.1:\"\n", `is no port`},
		{"no address", "listen = \"127.0.0.256:80\"\n", `"127.0.0.256" is no IP address`},
		{"IPv6 without brackets", "listen = \"2001:db8::1:80\"\n", `serve.listen`},
		{"BGP", peers + "bgp-listen = [\"0.0.0.0:bgp-or-so\"]\n", `key "serve.bgp-listen": "0.0.0.0:bgp-or-so": "bgp-or-so" is no port`},
		{"BMP", "[serve.bmp]\nlisten = [\"[::1]:1\", \"::1\"]\n", `key "serve.bmp.listen": "::1"`},
		{"twice", "listen = \"127.0.0.1:179\"\n" + peers + "bgp-listen = [\"127.0.0.1:179\"]\n", `key "serve.bgp-listen": "127.0.0.1:179": listen listens at 127.0.0.1:179 already`},
		{"all addresses", "listen = \"127.0.0.1:1790\"\n[serve.bmp]\nlisten = [\":1790\"]\n", `key "serve.bmp.listen": ":1790": listen listens at`},
		{"one list", "[serve.bmp]\nlisten = [\"127.0.0.1:1\", \"127.0.0.1:1\"]\n", `[serve.bmp] listen listens at 127.0.0.1:1 already`},
		{"VRPs that are not there", "[serve.rpki]\nfiles = [\"/none/vrps.json\"]\n", `key "serve.rpki.files": VRPs: stat /none/vrps.json`},
		{"VRPs with an error", fmt.Sprintf("[serve.rpki]\nfiles = [%q]\n", vrps), `VRPs of ` + vrps + `: entry 1 of roas`},
		{"folder that is not there", "[serve.snapshot]\nfile = \"/none/saved\"\n", `key "serve.snapshot.file": /none/saved: its folder /none is not there: make it`},
		{"folder that is none", fmt.Sprintf("[serve.snapshot]\nfile = %q\n", vrps+"/saved"), `serve.snapshot.file`},
		{"file of somebody else", fmt.Sprintf("[serve.snapshot]\nfile = %q\n", notOurs), `remove it or choose another path`},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := file(t, "ribwarp.toml", "[serve]\n"+c.text)
			code, stdout, stderr := call(t, "", "serve", "--check", "--config", config)
			if code != exitFailed || stdout != "" || !strings.Contains(stderr, c.want) || !strings.Contains(stderr, "config "+config) {
				t.Errorf("exit code %d, stdout %q, stderr %q, want %q", code, stdout, stderr, c.want)
			}
		})
	}
	config := file(t, "ribwarp.toml", fmt.Sprintf("[serve]\nlisten = \"127.0.0.1:0\"\n%sbgp-listen = [\"127.0.0.1:0\", \"[::1]:179\", \"127.0.0.1:179\", \"localhost:1790\"]\n[serve.snapshot]\nfile = %q\n", peers, filepath.Join(dir, "saved")))
	mustCall(t, "", "serve", "--check", "--config", config)
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	// A flag of the command line is not the file's.
	if code, _, stderr := call(t, "", "serve", "--check", "--config", config, "--listen", "nowhere"); code != exitUsage || !strings.Contains(stderr, `--listen "nowhere"`) {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

func TestPasswordsAreNotInErrors(t *testing.T) {
	config := file(t, "ribwarp.toml", "[serve]\nasn = 64500\nrouter-id = \"192.0.2.10\"\n[[serve.peer]]\naddress = \"192.0.2.1\"\nasn = 64501\nmd5 = \"secret, and more\"\nspeed = 1\n")
	if code, _, stderr := call(t, "", "serve", "--check", "--config", config); code != exitFailed || strings.Contains(stderr, "secret") || strings.Contains(stderr, "and more") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}
