package main

import (
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
