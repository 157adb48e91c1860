#!/bin/sh
# Measures "ribwarp batch": text in, CSV out, 20 million random addresses inside the prefixes of
# the real IPv4 table. Once as the whole command, files on disk, and once as the loop alone, in
# memory, by the number of workers. Writes batch.txt beside itself. RIBWARP_DATA is the folder of
# the real data, ROUNDS the number of runs, MACHINE what the file says it ran on.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
data=${RIBWARP_DATA:-../shared/data}
table=$data/ris-2026-05-11-as3333-v4.txt.gz
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
CGO_ENABLED=0 go build -o "$tmp/ribwarp" ./cmd/ribwarp
{
	echo "command: docs/benchmarks/batch.sh"
	echo "machine: ${MACHINE:-$(nproc) cores, $(go env GOOS)/$(go env GOARCH)}; $(go env GOVERSION)"
	"$tmp/ribwarp" gen addresses --rib "$table" --family ipv4 --keys in-prefix --seed 7 --count 20000000 --out "$tmp/in.txt" --log-level warn
	echo "table: $(basename "$table"); input: $(wc -l <"$tmp/in.txt") addresses, $(wc -c <"$tmp/in.txt") bytes; hit rate is matched / records"
	echo
	echo "--- ribwarp batch --rib TABLE --in FILE --out FILE.csv; seconds are from the loaded table to the last byte written"
	for _ in $(seq "${ROUNDS:-5}"); do
		"$tmp/ribwarp" batch --rib "$table" --in "$tmp/in.txt" --out "$tmp/out.csv" 2>&1 | grep 'batch done' | sed 's/.*msg=//'
		rm "$tmp/out.csv"
	done
	echo
	echo "--- the loop alone"
	CGO_ENABLED=0 go test ./cmd/ribwarp/internal/annotate -run '^$' -bench '^BenchmarkLines$' -count "${ROUNDS:-5}"
} | grep -v -e '^PASS$' -e '^ok ' | tee "$here/batch.txt"
