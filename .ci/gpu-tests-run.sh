#!/usr/bin/env bash
# Runs all tests beside this script on the first GPU, each package's in a folder of its own.
#
#   run.sh [LOGS]             writes the tests' output to folder LOGS, else to logs
#   run.sh sanitize [LOGS]    the short tests under compute-sanitizer, once with each of its tools
#   run.sh bench [LOGS]       the figures of docs/benchmarks/gpu.txt and hash.txt, to files of LOGS, too
#
# Real tables are looked for in RIBWARP_DATA, else in folder data beside this script.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tools=(plain)
if [ "${1:-}" = sanitize ]; then
	shift
	tools=(memcheck racecheck initcheck synccheck)
	if ! command -v compute-sanitizer >/dev/null; then
		echo "compute-sanitizer is missing: it comes with CUDA's toolkit" >&2
		exit 1
	fi
fi
if [ "${1:-}" = bench ]; then
	shift
	tools=()
fi
logs=${1:-logs}
mkdir -p "$logs" && logs=$(cd "$logs" && pwd) || exit 1
export REQUIRE_GPU=1
if [ -z "${RIBWARP_DATA:-}" ] && [ -d "$here/data" ]; then
	export RIBWARP_DATA=$here/data
fi

machine() {
	nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
	grep -m1 'model name' /proc/cpuinfo
	echo "$(nproc) processors"
}
if [ ${#tools[@]} -eq 0 ]; then
	{
		machine
		(cd "$here/flavors" && ./flavors.test -test.run '^$' -test.bench 'GPU([^OD]|Dev)' -test.benchtime 1x -test.timeout 30m) | grep -v '^Benchmark'
	} 2>&1 | tee "$logs/gpu.txt"
	{
		machine
		for package in linear slab dynamic; do
			(cd "$here/kernels/hash/$package" && ./$package.test -test.run '^$' -test.bench GPU -test.benchtime 1x -test.timeout 30m) | grep -v '^Benchmark'
		done
		(cd "$here/flavors" && ./flavors.test -test.run '^$' -test.bench 'GPU(OneChange|Destinations)' -test.benchtime 1x) | grep -v '^Benchmark'
	} 2>&1 | tee "$logs/hash.txt"
	exit
fi

failed=0
for tool in "${tools[@]}"; do
	while read -r binary; do
		dir=$(dirname "$binary")
		command=("./$(basename "$binary")" -test.v -test.timeout=30m)
		if [ "$tool" != plain ]; then
			# Tests make calls fail on purpose, and lose a GPU in a process of its own. The
			# conformance suite launches the same kernels as the tests of images and of changes.
			command=(compute-sanitizer --tool "$tool" --report-api-errors no --target-processes application-only
				--error-exitcode 99 "${command[@]}" -test.short -test.run 'GPU(Images|KeyTrees|Agrees)|Test([^G]|Gather)/cuda')
		fi
		log=$logs/$tool-${dir//\//-}.log
		start=$SECONDS
		result=ok
		(cd "$here/$dir" && exec "${command[@]}") >"$log" 2>&1 || { result="FAILED ($?)"; failed=1; }
		printf '%-12s %-10s %-24s %4ss  %s passed, %s skipped, %s failed\n' "$result" "$tool" "$dir" $((SECONDS - start)) \
			"$(grep -c -- '^--- PASS' "$log")" "$(grep -c -- '--- SKIP' "$log")" "$(grep -c -- '^--- FAIL' "$log")"
		[ "$result" = ok ] || grep -A20 -m3 -E -- '--- FAIL|^panic|ERROR SUMMARY' "$log" | head -60
		grep -A3 -- '--- SKIP' "$log"
	done < <(cd "$here" && find . -name '*.test' -printf '%P\n' | sort)
done
exit $failed
