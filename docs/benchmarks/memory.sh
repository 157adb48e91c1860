#!/usr/bin/env bash
# Memory of the real table from one peer and from two: the heap of ribwarp, with the published table, and beside it what BIRD says
# of its own ("show memory"), for the same prefixes. The sets of attributes: one for five prefixes here, one for all in BIRD,
# whose static routes have no others; their size is not in BIRD's figure. Writes memory.txt beside itself. Needs bird (2.x).
# RIBWARP_DATA is the folder of the real data, MACHINE what the file says it ran on.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
data=${RIBWARP_DATA:-../shared/data}
dir=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$dir"' EXIT
for family in 4 6; do
	{
		echo "protocol static {"
		echo "ipv$family;"
		zcat "$data/ris-2026-05-11-as3333-v$family.txt.gz" | tr -d '\r' | sed 's/.*/route & blackhole;/'
		echo "}"
	} >"$dir/static$family.conf"
done
peers=""
for i in 2 3; do
	cat >"$dir/bird$i.conf" <<EOF
router id 127.77.0.$i;
protocol device {}
include "$dir/static4.conf";
include "$dir/static6.conf";
protocol bgp {
	local 127.77.0.$i port 1790$i as 6450$i;
	neighbor 127.77.0.1 port 17901 as 64501;
	multihop;
	connect delay time 1;
	ipv4 { import none; export all; next hop self; };
	ipv6 { import none; export all; next hop address 2001:db8::$i; };
}
EOF
	peers+="protocol bgp peer$i { local 127.77.0.1 port 17901 as 64501; neighbor 127.77.0.$i port 1790$i as 6450$i; multihop; passive;
		ipv4 { import all; export none; }; ipv6 { import all; export none; }; }
"
done
printf 'router id 127.77.0.1;\nprotocol device {}\n%s' "$peers" >"$dir/bird1.conf"
start() { bird -f -c "$dir/bird$1.conf" -s "$dir/$1.ctl" -P "$dir/$1.pid" 2>"$dir/$1.log" & }
total=$(($(zcat "$data/ris-2026-05-11-as3333-v4.txt.gz" | wc -l) + $(zcat "$data/ris-2026-05-11-as3333-v6.txt.gz" | wc -l)))
await() { # until peer $1 has announced all
	until [ "$(birdc -s "$dir/1.ctl" show protocols all "peer$1" 2>/dev/null | awk '/Routes:/ {n += $2} END {print n + 0}')" = "$total" ]; do sleep 0.2; done
	birdc -s "$dir/1.ctl" show memory | grep -E 'Routing tables|Route attributes|Total'
}
{
	echo "command: docs/benchmarks/memory.sh"
	echo "machine: ${MACHINE:-$(nproc) cores, $(go env GOOS)/$(go env GOARCH)}; $(go env GOVERSION); $(bird --version 2>&1)"
	CGO_ENABLED=0 go test ./cmd/ribwarp -run '^$' -bench '^BenchmarkMemory$' -benchtime 1x | grep Benchmark
	start 1
	start 2
	echo "BIRD, $total routes of one peer:"
	await 2
	start 3
	echo "BIRD, the same of two peers:"
	await 3
} | tee "$here/memory.txt"
