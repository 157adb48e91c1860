#!/usr/bin/env bash
# A full table from BIRD over one loopback session into `ribwarp serve`: time from the session's
# establishment, which is before the first UPDATE, until a generation with the whole table is
# visible in lookups, and the peak memory of the service; and beside it, alternating, the time that
# a second BIRD takes for the same table from the same BIRD, and its memory. Writes bgp-load.txt beside itself. Needs
# bird (2.x), bc and curl. RIBWARP_DATA is the folder of the real data, MACHINE what the file says
# it ran on.
#
#   docs/benchmarks/bgp-load.sh [RUNS]
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
routes4=$(zcat "$data/ris-2026-05-11-as3333-v4.txt.gz" | wc -l)
routes6=$(zcat "$data/ris-2026-05-11-as3333-v6.txt.gz" | wc -l)
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
cat >"$dir/second.conf" <<EOF
router id 127.77.0.1;
timeformat protocol "%F %T.%6f";
protocol device {}
protocol bgp peer {
	local 127.77.0.1 port 17901 as 64501;
	neighbor 127.77.0.2 port 17902 as 64502;
	multihop;
	passive;
	ipv4 { import all; export none; };
	ipv6 { import all; export none; };
}
EOF
start_bird() {
	bird -f -c "$dir/bird.conf" -s "$dir/bird.ctl" -P "$dir/bird.pid" 2>"$dir/bird.log" &
	bird=$!
}
end() {
	kill "$@"
	wait "$@" 2>/dev/null || true
}
measure() {
	echo "command: docs/benchmarks/bgp-load.sh $runs"
	echo "machine: ${MACHINE:-$(nproc) cores, $(go env GOOS)/$(go env GOARCH)}; $(go env GOVERSION); $(bird --version 2>&1)"
	echo "table: $routes4 IPv4 and $routes6 IPv6 prefixes"
	for run in $(seq "$runs"); do
		"$dir/ribwarp" serve --listen 127.0.0.1:17900 --bgp-listen 127.77.0.1:17901 --asn 64501 \
			--router-id 127.77.0.1 --peer 127.77.0.2,asn=64502,passive,import=accept >"$dir/out" 2>"$dir/log" &
		service=$!
		start_bird
		for _ in $(seq 600); do
			curl -fs -o "$dir/ready" http://127.0.0.1:17900/readyz 2>/dev/null && break
			sleep 0.1
		done
		curl -fs http://127.0.0.1:17900/api/v1/status >"$dir/status"
		up=$(grep -m1 'established' "$dir/log" | sed 's/^time=\([^ ]*\) .*/\1/')
		ready=$(grep -m1 'msg=ready' "$dir/log" | sed 's/^time=\([^ ]*\) .*/\1/')
		seconds=$(echo "$(date -d "$ready" +%s.%N) - $(date -d "$up" +%s.%N)" | bc)
		hwm=$(awk '/VmHWM/ {print $2}' "/proc/$service/status")
		echo "run $run: established to all visible $seconds s, peak RSS $((hwm / 1024)) MiB, status: $(grep -o '"ipv4":[0-9]*,"ipv6":[0-9]*' "$dir/status" | head -1)"
		end "$bird" "$service"

		bird -f -c "$dir/second.conf" -s "$dir/second.ctl" -P "$dir/second.pid" 2>"$dir/second.log" &
		second=$!
		start_bird
		total=$((routes4 + routes6)) got=0
		for _ in $(seq 1200); do
			birdc -s "$dir/second.ctl" show protocols all peer >"$dir/peer" 2>/dev/null || true
			got=$(awk '/Routes:/ {n += $2} END {print n + 0}' "$dir/peer")
			[ "$got" = "$total" ] && break
			sleep 0.05
		done
		now=$(date +%s.%N)
		up=$(awk '$1 == "peer" {print $5, $6}' "$dir/peer")
		beside=$(echo "$now - $(date -d "$up" +%s.%N)" | bc)
		hwm=$(awk '/VmHWM/ {print $2}' "/proc/$second/status")
		echo "run $run: a second BIRD has $got routes after $beside s, peak RSS $((hwm / 1024)) MiB; ribwarp took $(echo "scale=2; $seconds / $beside" | bc) times as long"
		end "$bird" "$second"
	done
}
measure | tee "$here/bgp-load.txt"
