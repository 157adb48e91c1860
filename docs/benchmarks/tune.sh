#!/bin/sh
# Strides chosen for the real tables: the choice of the shipped model beside an exhaustive measurement of 50
# candidates, one thread, rounds that alternate; the published way to choose (a regression) beside the exact search; ribwarp tune
# with its picture. Writes tune.txt and tune.svg beside itself. With FIT=1 it first writes the raw measurements that models are fitted
# to, to tune-cpu.tsv: lookups in trees of many strides, then in those that a model fitted to them ranks best; and the models
# (flavors/tune/models.json) anew from all raw measurements. On a GPU: run.sh tune of gpu-tests, to tune-gpu.tsv and tune-gpu.txt.
# tune-cpu-xeon.tsv are raw measurements of one more processor.
# RIBWARP_DATA is the folder of the real data, MACHINE what the file says it ran on, TUNE_ROUNDS the number of rounds (5).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
RIBWARP_DATA=$(cd "${RIBWARP_DATA:-../shared/data}" && pwd)
export RIBWARP_DATA CGO_ENABLED=0
v4=$RIBWARP_DATA/ris-2026-05-11-as3333-v4.txt.gz
v6=$RIBWARP_DATA/ris-2026-05-11-as3333-v6.txt.gz
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
go build -o "$tmp/ribwarp" ./cmd/ribwarp
go test -c -o "$tmp/tune.test" ./flavors/tune
bench() {
	(cd flavors/tune && "$tmp/tune.test" -test.run '^$' -test.bench "$1" -test.benchtime 1x -test.timeout 60m)
}
fit() { (cd flavors/tune && "$tmp/tune.test" -test.v -test.run ShippedModels); }
if [ "${FIT:-}" = 1 ]; then
	bench CPUStrides | grep -v -e '^Benchmark' -e '^goos' -e '^goarch' -e '^pkg' -e '^cpu' -e '^PASS' >"$tmp/raw.tsv"
	TUNE_RAW="$tmp/raw.tsv" TUNE_MODEL="$tmp/models.json" fit || true # good enough to say what to measure next
	TUNE_ROWS="$tmp/raw.tsv" TUNE_MODEL="$tmp/models.json" bench CPUChoice
	mv "$tmp/raw.tsv" "$here/tune-cpu.tsv"
	UPDATE_MODELS=1 fit
	go build -o "$tmp/ribwarp" ./cmd/ribwarp
	go test -c -o "$tmp/tune.test" ./flavors/tune
fi
{
	echo "command: docs/benchmarks/tune.sh"
	echo "machine: ${MACHINE:-$(nproc) cores, $(go env GOOS)/$(go env GOARCH)}; $(go env GOVERSION)"
	echo "tables: $(basename "$v4"), $(basename "$v6")"
	echo
	echo "--- models, and how they order what they were not fitted to"
	fit >"$tmp/fit"
	sed -n 's/^ *fit_test.go:[0-9]*: //p' "$tmp/fit"
	echo
	echo "--- the choice beside 50 candidates"
	bench CPUChoice
	echo
	echo "--- the counting pass over sorted masks"
	bench 'Shape$'
	echo
	echo "--- a regression from the bits' moments beside the exact search"
	bench Baseline
	echo
	echo "\$ ribwarp tune --rib $(basename "$v4") --rib $(basename "$v6") --measure --svg tune.svg"
	"$tmp/ribwarp" --log-level warn tune --rib "$v4" --rib "$v6" --measure --rounds "${TUNE_ROUNDS:-5}" --svg "$here/tune.svg"
} >"$tmp/all"
grep -v -e '^PASS$' -e '^ok ' -e '^Benchmark.*ns/op$' -e '^goos' -e '^goarch' -e '^pkg' "$tmp/all" | tee "$here/tune.txt"
