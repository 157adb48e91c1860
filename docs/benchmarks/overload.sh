#!/usr/bin/env bash
# What a service answers at three times the load that it sustains. vegeta asks open loop, as clients do that know
# nothing of each other: JSON requests of 10,000 addresses, and beside them single lookups, a few hundred a second.
# The service has one half of the processors and vegeta the other. Found are the peak goodput, by rates that
# rise, and the highest rate of which 99 % is answered; then three times that is asked for, and then half of it.
# Writes overload.txt beside itself. Needs taskset (util-linux). MACHINE is what the file says it ran on.
#
#   docs/benchmarks/overload.sh [SECONDS_OF_OVERLOAD [SECONDS_A_RATE [SINGLES_A_SECOND]]]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
long=${1:-60} short=${2:-6} singles=${3:-200}
addresses=10000 # of a JSON request
url=http://127.0.0.1:17980
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

half=$(($(nproc) / 2))
[ "$half" -gt 0 ] || { echo "one processor is too few: service and client need one each" >&2; exit 1; }
service_cpus=0-$((half - 1)) client_cpus=$half-$(($(nproc) - 1))
CGO_ENABLED=0 go build -o "$dir/ribwarp" ./cmd/ribwarp
go build -modfile="$here/tools.mod" -o "$dir/vegeta" github.com/tsenart/vegeta/v12
"$dir/ribwarp" gen --ipv4 1042325 --ipv6 246175 --seed 1 --out "$dir/table.txt"
"$dir/ribwarp" gen addresses --rib "$dir/table.txt" --count $((16 * addresses)) --out "$dir/addresses.txt" 2>"$dir/log"
for i in $(seq 0 15); do
	awk -v from=$((i * addresses)) -v n=$addresses 'BEGIN {printf "{\"ips\":["} NR > from && NR <= from + n {printf "%s\"%s\"", (NR > from + 1 ? "," : ""), $1} END {print "]}"}' \
		"$dir/addresses.txt" >"$dir/body$i.json"
	printf 'POST %s/api/v1/lookup\nContent-Type: application/json\n@%s\n\n' "$url" "$dir/body$i.json"
done >"$dir/bulk"
awk -v url="$url" 'NR <= 10000 {printf "GET %s/api/v1/lookup/%s\n\n", url, $1}' "$dir/addresses.txt" >"$dir/single"

# attack NAME RATE SECONDS: asks, and leaves one line a request in NAME.csv: time, status, latency, in ns.
attack() {
	taskset -c "$client_cpus" "$dir/vegeta" attack -targets "$dir/${1%%-*}" -rate "$2/1s" -duration "${3}s" -timeout 10s -max-body 0 \
		-connections 10000 | "$dir/vegeta" encode --to csv | cut -d, -f1-3 >"$dir/$1.csv"
}
# p99 NAME STATUSES: the 99th percentile of the latencies of these, in ms.
p99() {
	awk -F, -v wanted="$2" 'wanted ~ $2 {print $3}' "$dir/$1.csv" | sort -n | awk '{a[NR] = $1} END {printf "%.2f", (NR ? a[int((NR * 99 + 99) / 100)] / 1e6 : 0)}'
}
# figures NAME: per second of what was asked: asked, answered, refused; the 99th percentiles of both kinds of answers
# in ms; how many others there were.
figures() {
	awk -F, '{n++; if (!first || $1 < first) first = $1; if ($1 > last) last = $1}
		$2 == 200 {good++} $2 == 429 || $2 == 503 {refused++}
		END {s = (last - first) / 1e9 * n / (n - 1); printf "%.1f %.1f %.1f ", n / s, good / s, refused / s}' "$dir/$1.csv"
	echo "$(p99 "$1" 200) $(p99 "$1" "429 503") $(awk -F, '$2 != 200 && $2 != 429 && $2 != 503 {n++} END {print n + 0}' "$dir/$1.csv")"
}
show() {
	read -r asked good refused p99 late other < <(figures "$1")
	printf '%-34s %8.1f asked/s %8.1f answered/s (p99 %7.1f ms) %8.1f refused/s (p99 %6.1f ms) %d others\n' "$2" "$asked" "$good" "$p99" "$refused" "$late" "$other"
}

measure() {
	echo "command: docs/benchmarks/overload.sh $long $short $singles"
	echo "machine: ${MACHINE:-$(nproc) cores, $(go env GOOS)/$(go env GOARCH)}; $(go env GOVERSION); service on processors $service_cpus, vegeta on $client_cpus"
	echo "table: 1042325 IPv4 and 246175 IPv6 routes, generated; a JSON request has $addresses addresses, all inside its prefixes"
	echo
	taskset -c "$service_cpus" "$dir/ribwarp" serve --listen "${url#http://}" --rib "$dir/table.txt" >"$dir/out" 2>"$dir/log" &
	service=$!
	trap 'kill "$service"; wait' EXIT
	until curl -fs -o /dev/null "$url/readyz"; do sleep 0.1; done
	attack bulk-warm 20 2

	attack single-quiet "$singles" "$short"
	show single-quiet "single lookups, nothing else:"
	normal=$(figures single-quiet | cut -d' ' -f4)
	peak=0 sustained=0 rate=20
	while :; do
		attack single-beside "$singles" "$short" &
		probe=$!
		attack bulk-rise "$rate" "$short"
		wait "$probe"
		show bulk-rise "JSON, $rate a second:"
		read -r asked good rest < <(figures bulk-rise)
		peak=$(awk -v a="$peak" -v b="$good" 'BEGIN {print (b > a ? b : a)}')
		awk -v a="$asked" -v g="$good" 'BEGIN {exit !(g >= 0.99 * a)}' && sustained=$rate
		awk -v r="$rate" -v p="$peak" 'BEGIN {exit !(r < 1.6 * p)}' || break
		rate=$((rate * 5 / 4))
	done
	rate=$((3 * sustained))
	echo
	echo "peak goodput $peak JSON requests a second, sustained rate $sustained: for $long s $rate a second"
	attack single-over "$singles" "$long" &
	probe=$!
	attack bulk-over "$rate" "$long"
	ended=$(date +%s%N)
	attack single-after "$singles" 10 &
	after=$!
	attack bulk-after $((sustained / 2)) 10
	wait "$probe" "$after"
	show bulk-over "JSON at three times:"
	show single-over "single lookups beside it:"
	show bulk-after "JSON at one half, right after:"
	show single-after "single lookups beside it:"
	read -r asked good refused p99 late other < <(figures bulk-over)
	echo
	awk -v g="$good" -v p="$peak" -v l="$late" 'BEGIN {printf "goodput at three times the load / peak: %.3f\nrefusals, p99: %.1f ms\n", g / p, l}'
	sort -t, -n "$dir/bulk-after.csv" "$dir/single-after.csv" | awk -F, -v ended="$ended" '$2 != 200 {last = ($1 - ended) / 1e9}
		END {print "last request after it that was not answered by 200: " (last ? sprintf("%.2f s", last) : "none")}'
	awk -F, -v ended="$ended" -v normal="$normal" '{s = int(($1 - ended) / 1e9); n[s]++; if ($3 > 2e6 * normal) slow[s]++}
		END {for (s in n) if (slow[s] > 0.01 * n[s] && s + 1 > from) from = s + 1
		printf "single lookups beside one half have twice the quiet p99 at most from second %d on\n", from}' "$dir/single-after.csv"
}
measure | tee "$here/overload.txt"
