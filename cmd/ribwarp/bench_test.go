package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gaissmai/bart"

	"github.com/ribwarp/ribwarp/lpm"
)

func TestBenchPrintsAnObjectAFamily(t *testing.T) {
	list, _ := mustCall(t, "", "gen", "--ipv4", "2000", "--ipv6", "500")
	table := file(t, "table.txt", list)
	stdout, _ := mustCall(t, "", "bench", "--rib", table, "--json", "--rounds", "1", "--threads", "2", "--peer")
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines: %s", len(lines), stdout)
	}
	for i, family := range []string{"ipv4", "ipv6"} {
		var r benchResult
		if err := json.Unmarshal([]byte(lines[i]), &r); err != nil {
			t.Fatal(err)
		}
		if r.Family != family || r.LookupsPerSecond <= 0 || r.HitRate != 1 || r.BuildSeconds <= 0 || r.TableBytes == 0 || r.Prefixes == 0 || r.Threads != 2 || r.PeerRatio == nil || r.Verified < 1<<18 {
			t.Errorf("%s", lines[i])
		}
	}
	only4 := file(t, "only4.txt", "10.0.0.0/8\n")
	if stdout, _ := mustCall(t, "", "bench", "--rib", only4, "--rounds", "1", "--keys", "uniform"); strings.Contains(stdout, "ipv6") || !strings.HasPrefix(stdout, "ipv4: ") {
		t.Errorf("%s", stdout)
	}
}

func TestBenchRefusesWrongAnswers(t *testing.T) {
	peer := new(bart.Fast[lpm.Handle])
	peer.Insert(lpm.Route4{Addr: 10 << 24, Bits: 8}.Prefix(), 1)
	f := benchFamily[uint32]{name: "ipv4", addrs: []uint32{10 << 24, 11 << 24}, netip: lpm.Netip4,
		lookup: func(_ lpm.Table, dst []lpm.Handle, _ []uint32) error {
			for i := range dst {
				dst[i] = 1
			}
			return nil
		}}
	if _, _, err := f.verify(nil, peer); err == nil || !strings.Contains(err.Error(), "11.0.0.0") {
		t.Errorf("error %v", err)
	}
}

func TestMedian(t *testing.T) {
	if m := median([]float64{3, 1, 2}); m != 2 {
		t.Error(m)
	}
	if m := median([]float64{4, 1, 2, 3}); m != 2.5 {
		t.Error(m)
	}
}
