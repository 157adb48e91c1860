#!/bin/sh
# Shortest paths on the processor: one root beside gonum's Dijkstra, all roots on all cores, first hops,
# all single-link failures, a changed metric. Writes igp.txt beside itself. RIBWARP_DATA is the folder of the
# real data, MACHINE what the file says it ran on, ROUNDS the number of runs.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
rounds=${ROUNDS:-5}
{
	echo "command: docs/benchmarks/igp.sh"
	echo "machine: ${MACHINE:-$(nproc) cores, $(go env GOOS)/$(go env GOARCH)}; $(go env GOVERSION)"
	echo "rf1239: 315 nodes, 1,944 arcs; generated with 600, 10,000 and 100,000 nodes: 3,600, 40,000 and 400,000 arcs"
	echo
	echo "--- one root on one core, another root each time: ribwarp, gonum on its own graph, gonum on arrays"
	CGO_ENABLED=0 go test ./rib/igp -run '^$' -bench '^BenchmarkSPF$' -benchtime 300ms -count "$rounds"
	echo
	echo "--- all roots, 1,024 at most, all cores"
	CGO_ENABLED=0 go test ./rib/igp -run '^$' -bench '^BenchmarkAllRoots$' -count "$rounds"
	echo
	echo "--- one root with all first hops; a changed metric, to the new topology"
	CGO_ENABLED=0 go test ./rib/igp -run '^$' -bench '^Benchmark(Tree|Apply)$' -benchtime 300ms -count "$rounds"
	echo
	echo "--- single-link failures, three exits, all cores: repaired, and computed anew where the link was used"
	CGO_ENABLED=0 go test ./rib/igp -run '^$' -bench '^BenchmarkWhatIf$' -count "$rounds"
} | grep -v -e '^PASS$' -e '^ok ' -e '^goos' -e '^goarch' -e '^pkg' | tee "$here/igp.txt"
