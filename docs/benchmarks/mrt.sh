#!/usr/bin/env bash
# A generated full table in TABLE_DUMP_V2 form as 30 peers see it: loaded, decided and built by ribwarp, and beside it
# printed by bgpdump -m, alternating. Writes mrt.txt beside itself. Needs bgpdump and 4 GB in TMPDIR. MACHINE is what the file
# says it ran on.
#
#   docs/benchmarks/mrt.sh [IPV4 IPV6 RUNS]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
ipv4=${1:-1042325} ipv6=${2:-246175} runs=${3:-3}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
CGO_ENABLED=0 go build -o "$dir/ribwarp" ./cmd/ribwarp
"$dir/ribwarp" gen --seed 1 --ipv4 "$ipv4" --ipv6 "$ipv6" --format mrt --peers 30 --out "$dir/table.mrt" 2>/dev/null
TIMEFORMAT='%R %U %S'
timed() { # wall, user and system seconds of a command
	{ time "$@" >"$dir/out" 2>"$dir/err"; } 2>&1
}
measure() {
	echo "command: docs/benchmarks/mrt.sh $ipv4 $ipv6 $runs"
	echo "machine: ${MACHINE:-$(nproc) cores, $(go env GOOS)/$(go env GOARCH)}; $(go env GOVERSION); bgpdump $(dpkg-query -W -f '${Version}' bgpdump 2>/dev/null || true)"
	echo "file: $(stat -c %s "$dir/table.mrt") bytes, $((ipv4 + ipv6)) prefixes, 30 peers"
	for run in $(seq "$runs"); do
		read -r wall user sys <<<"$(timed "$dir/ribwarp" rib info --rib "$dir/table.mrt" --json)"
		read -r wall2 user2 sys2 <<<"$(timed bgpdump -m -O /dev/null "$dir/table.mrt")"
		echo "run $run: ribwarp rib info $wall s ($user user, $sys system); bgpdump -m $wall2 s ($user2 user, $sys2 system): $(echo "scale=1; $wall2 / $wall" | bc) times as long, its user time alone $(echo "scale=1; $user2 / $wall" | bc)"
	done
}
measure | tee "$here/mrt.txt"
