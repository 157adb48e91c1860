package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestGeneratedTablesAreReadBack(t *testing.T) {
	list, _ := mustCall(t, "", "gen", "--seed", "3", "--ipv4", "300", "--ipv6", "100")
	again, _ := mustCall(t, "", "gen", "--seed", "3", "--ipv4", "300", "--ipv6", "100")
	if list != again {
		t.Error("the same seed gave another table")
	}
	mrt := filepath.Join(t.TempDir(), "table.mrt")
	mustCall(t, "", "gen", "--seed", "3", "--ipv4", "300", "--ipv6", "100", "--format", "mrt", "--peers", "2", "--out", mrt)
	for name, path := range map[string]string{"list": file(t, "table.txt", list), "mrt": mrt} {
		stdout, _ := mustCall(t, "", "rib", "info", "--json", path)
		if !strings.Contains(stdout, `"ipv4": 300`) || !strings.Contains(stdout, `"ipv6": 100`) {
			t.Errorf("%s: %s", name, stdout)
		}
	}
}

func TestGeneratedAddressesMatch(t *testing.T) {
	list, _ := mustCall(t, "", "gen", "--ipv4", "500", "--ipv6", "300")
	table := file(t, "table.txt", list)
	for _, family := range []string{"ipv4", "ipv6", "both"} {
		addresses, _ := mustCall(t, "", "gen", "addresses", "--rib", table, "--count", "2000", "--family", family)
		if n := strings.Count(addresses, "\n"); n != 2000 {
			t.Errorf("%s: %d addresses", family, n)
		}
		if v6 := strings.Count(addresses, ":") > 0; v6 != (family != "ipv4") {
			t.Errorf("%s: IPv6 among them: %t", family, v6)
		}
		rows, stderr := mustCall(t, addresses, "batch", "--rib", table, "--columns", "prefix")
		if strings.Contains(rows, ",\n") || strings.Contains(stderr, "no address") {
			t.Errorf("%s: some address has no route", family)
		}
	}
}
