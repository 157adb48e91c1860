#!/usr/bin/env bash
# From the start of `ribwarp serve` to its first answer, with a saved generation of a full table that BIRD announced
# and no peer there; and the size of the file. Writes restart.txt beside itself. Needs bird (2.x), bc and curl.
# RIBWARP_DATA is the folder of the real data, MACHINE what the file says it ran on.
#
#   docs/benchmarks/restart.sh [RUNS]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
runs=${1:-5}
data=${RIBWARP_DATA:-../shared/data}
dir=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$dir"' EXIT

CGO_ENABLED=0 go build -o "$dir/ribwarp" ./cmd/ribwarp
for family in 4 6; do
	{
		echo "protocol static {"
		echo "ipv$family;"
		zcat "$data/ris-2026-05-11-as3333-v$family.txt.gz" | tr -d '\r' | sed 's/.*/route & blackhole;/'
		echo "}"
	} >"$dir/static$family.conf"
done
cat >"$dir/bird.conf" <<EOF
router id 127.77.0.2;
protocol device {}
include "$dir/static4.conf";
include "$dir/static6.conf";
protocol bgp {
	local 127.77.0.2 port 17902 as 64502;
	neighbor 127.77.0.1 port 17901 as 64501;
	multihop;
	connect delay time 1;
	ipv4 { import none; export all; next hop self; };
	ipv6 { import none; export all; next hop address 2001:db8::2; };
}
EOF
cat >"$dir/ribwarp.toml" <<EOF
[serve]
listen = "127.0.0.1:17900"
bgp-listen = ["127.77.0.1:17901"]
asn = 64501
router-id = "127.77.0.1"
[[serve.peer]]
address = "127.77.0.2"
asn = 64502
passive = true
import = "accept"
[serve.snapshot]
file = "$dir/saved"
EOF
# The address of some prefix in the midst of the table.
address=$(zcat "$data/ris-2026-05-11-as3333-v4.txt.gz" | tr -d '\r' | sed -n '500000{s,/.*,,;p}')
measure() {
	echo "command: docs/benchmarks/restart.sh $runs"
	echo "machine: ${MACHINE:-$(nproc) cores, $(go env GOOS)/$(go env GOARCH)}; $(go env GOVERSION); $(bird --version 2>&1)"
	"$dir/ribwarp" serve --config "$dir/ribwarp.toml" >"$dir/out" 2>"$dir/log" &
	service=$!
	bird -f -c "$dir/bird.conf" -s "$dir/bird.ctl" -P "$dir/bird.pid" 2>"$dir/bird.log" &
	bird=$!
	until curl -fs -o /dev/null http://127.0.0.1:17900/readyz; do sleep 0.1; done
	kill "$service"
	wait "$service" || true
	kill "$bird"
	wait "$bird" || true
	echo "file: $(stat -c %s "$dir/saved") bytes"
	for run in $(seq "$runs"); do
		start=$(date +%s.%N)
		"$dir/ribwarp" serve --config "$dir/ribwarp.toml" >"$dir/out" 2>"$dir/log" &
		service=$!
		until curl -fs "http://127.0.0.1:17900/api/v1/lookup/$address" 2>/dev/null | grep -q '"stale":true'; do sleep 0.005; done
		took=$(echo "$(date +%s.%N) - $start" | bc)
		routes=$(curl -fs http://127.0.0.1:17900/api/v1/status | grep -o '"ipv4":[0-9]*,"ipv6":[0-9]*' | head -1)
		echo "run $run: first answer $took s after the start, $routes, peak RSS $(($(awk '/VmHWM/ {print $2}' "/proc/$service/status") / 1024)) MiB"
		kill -9 "$service"
		wait "$service" 2>/dev/null || true
	done
}
measure | tee "$here/restart.txt"
