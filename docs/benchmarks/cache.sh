#!/bin/sh
# Exact routes from the index beside those from the tree, and skewed traffic with a destination cache beside
# none, one thread. Writes cache.txt beside itself. RIBWARP_DATA is the folder of the real data, MACHINE what
# the file says it ran on.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
{
	echo "command: docs/benchmarks/cache.sh"
	echo "machine: ${MACHINE:-$(nproc) cores, $(go env GOOS)/$(go env GOARCH)}; $(go env GOVERSION)"
	CGO_ENABLED=0 go test ./lpm/index -run '^$' -bench '^BenchmarkIndex$' -benchtime "${RUNS:-10}x"
	CGO_ENABLED=0 go test ./lpm/cache -run '^$' -bench '^BenchmarkDestinations$' -benchtime "${RUNS:-10}x" -timeout 30m
} | grep -v -e '^PASS$' -e '^ok ' | tee "$here/cache.txt"
