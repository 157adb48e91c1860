#!/bin/sh
# One changed route in the full table: from the write to the BGP session until lookups see it,
# with 1,000 changes a second arriving. Then the engine's share alone. Writes visible.txt beside
# itself. RIBWARP_DATA is the folder of the real data, MACHINE what the file says it ran on.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
{
	echo "command: docs/benchmarks/visible.sh"
	echo "machine: ${MACHINE:-$(nproc) cores, $(go env GOOS)/$(go env GOARCH)}; $(go env GOVERSION)"
	CGO_ENABLED=0 go test ./cmd/ribwarp -run '^$' -bench '^BenchmarkChangeToVisible$' -benchtime "${CHANGES:-30000}x" -count 3
	CGO_ENABLED=0 go test ./flavors -run '^$' -bench '^(BenchmarkUpdate|BenchmarkBuild)$' -count 3
} | grep -v -e '^PASS$' -e '^ok ' | tee "$here/visible.txt"
