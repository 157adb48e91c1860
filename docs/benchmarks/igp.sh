#!/usr/bin/env bash
# Shortest paths on the processor: one root beside gonum's Dijkstra, in rounds that alternate; all roots on all cores, first
# hops, all single-link failures, a changed metric until the table goes by it. Writes igp.txt beside itself.
# RIBWARP_DATA is the folder of the real data, MACHINE what the file says it ran on, ROUNDS the number of runs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
rounds=${ROUNDS:-5}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for package in rib rib/igp; do
	CGO_ENABLED=0 go test -c -o "$dir/${package//\//-}.test" "./$package"
done

# figures PACKAGE PATTERN [ARGUMENTS] prints a package's.
figures() {
	local package=$1 pattern=$2
	shift 2
	(cd "$package" && "$dir/${package//\//-}.test" -test.run '^$' -test.bench "$pattern" "$@") | { grep '^Benchmark' || true; }
}

# medians of BenchmarkSPF's lines, and how many times as long as ribwarp the others take.
medians() {
	sed -nE 's|^BenchmarkSPF/([^/]+)/([a-z-]*[a-z])(-[0-9]+)?[[:space:]]+[0-9]+[[:space:]]+([0-9.]+) ns/op.*|\1 \2 \4|p' |
		sort -k1,2 -k3n | awk '
			{ n[$1, $2]++; v[$1, $2, n[$1, $2]] = $3; if (!seen[$1]++) graphs[++count] = $1 }
			function median(g, s) { return v[g, s, int((n[g, s] + 1) / 2)] }
			END {
				for (i = 1; i <= count; i++) {
					g = graphs[i]; us = median(g, "ribwarp") / 1000
					printf "%s: ribwarp %.1f us", g, us
					for (j = 1; j <= split("gonum gonum-arrays", others, " "); j++)
						if ((g, others[j]) in n) printf "; %s %.1f us, ratio %.1f", others[j], median(g, others[j]) / 1000, median(g, others[j]) / 1000 / us
					print ""
				}
			}'
}

{
	echo "command: docs/benchmarks/igp.sh"
	echo "machine: ${MACHINE:-$(nproc) cores, $(go env GOOS)/$(go env GOARCH)}; $(go env GOVERSION)"
	echo "rf1239: 315 nodes, 1,944 arcs; generated with 600, 10,000 and 100,000 nodes: 3,600, 40,000 and 400,000 arcs"
	echo
	echo "--- one root on one core, another root each time: ribwarp, gonum on its own graph, gonum on arrays"
	for ((i = 0; i < rounds; i++)); do
		figures rib/igp '^BenchmarkSPF$' -test.benchtime 300ms
	done | tee "$dir/spf"
	echo "--- medians of these"
	medians <"$dir/spf"
	echo
	echo "--- all roots, 1,024 at most, all cores"
	figures rib/igp '^BenchmarkAllRoots$' -test.count "$rounds"
	echo
	echo "--- one root with all first hops; a changed metric, to the new topology"
	figures rib/igp '^Benchmark(Tree|Apply)$' -test.benchtime 300ms -test.count "$rounds"
	echo
	echo "--- single-link failures, three exits, all cores: repaired, and computed anew where the link was used"
	figures rib/igp '^BenchmarkWhatIf$' -test.count "$rounds"
	echo
	echo "--- a changed metric until the generation is published that goes by it: 1,000 routers, 500 next hops, two peers, all cores"
	figures rib '^BenchmarkTopologyChange$' -test.benchtime "${CHANGES:-50}x" -test.count "$rounds"
} | tee "$here/igp.txt"
