#!/bin/sh
# Lookups and builds on the real tables, beside bart.Fast in rounds that alternate with ours:
# random in-prefix and uniform keys, one thread and all; then other stride lists. Writes
# lookup.txt beside itself. RIBWARP_DATA is the folder of the real data, ROUNDS the number of
# rounds, MACHINE what the file says it ran on.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
data=${RIBWARP_DATA:-../shared/data}
v4=$data/ris-2026-05-11-as3333-v4.txt.gz
v6=$data/ris-2026-05-11-as3333-v6.txt.gz
rounds=${ROUNDS:-9}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
CGO_ENABLED=0 go build -o "$tmp/ribwarp" ./cmd/ribwarp
bench() {
	echo "\$ ribwarp bench --engine cpu --peer --json --rounds $rounds $*"
	"$tmp/ribwarp" --log-level warn bench --engine cpu --peer --json --rounds "$rounds" --rib "$v4" --rib "$v6" "$@"
	echo
}
{
	echo "command: docs/benchmarks/lookup.sh"
	echo "machine: ${MACHINE:-$(nproc) cores, $(go env GOOS)/$(go env GOARCH)}; $(go env GOVERSION)"
	echo "tables: $(basename "$v4"), $(basename "$v6"), in random order"
	echo
	bench --keys in-prefix --threads 1
	bench --keys uniform --threads 1
	bench --keys in-prefix --threads "$(nproc)"
	echo "--- as on a processor without AVX-512"
	GODEBUG=cpu.avx512f=off bench --keys in-prefix --threads 1
	echo "--- other strides, and the flavor with lists"
	for s in 16,8,8 24,8 8,8,8,8; do
		bench --keys in-prefix --strides4 "$s" | grep -v ipv6
	done
	for s in 16,16,4,4,4,4,8,8,8,8,8,8,8,8,8,8 16,8,8,8,8,8,8,8,8,8,8,8,8,8,8 24,8,4,4,4,4,8,8,8,8,8,8,8,8,8,8; do
		bench --keys in-prefix --strides6 "$s" | grep -v ipv4
	done
	bench --keys in-prefix --flavor list --rounds 3
} | tee "$here/lookup.txt"
