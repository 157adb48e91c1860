#!/usr/bin/env bash
# Runs all tests beside this script on the first GPU, each package's in a folder of its own.
#
#   run.sh [LOGS]             writes the tests' output to folder LOGS, else to logs
#   run.sh sanitize [LOGS]    the short tests under compute-sanitizer, once with each of its tools
#   run.sh bench [LOGS]       the figures of docs/benchmarks/gpu.txt, hash.txt and heap.txt, to files of LOGS, too
#   run.sh heap [LOGS]        all three of them for shortest paths alone, in 4 minutes
#   run.sh exits [LOGS]       shortest paths as the service and the commands compute them, in a minute
#   run.sh tune [LOGS]        lookups in trees of many strides, to tune-gpu.tsv, which models are fitted to, and the choice of
#                             the model that is fitted to them beside 50 candidates, to tune-gpu.txt; some 2 minutes
#
# Real tables are looked for in RIBWARP_DATA, else in folder data beside this script.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
what=tests
case ${1:-} in sanitize | bench | heap | exits | tune)
	what=$1
	shift
	;;
esac
if [[ $what =~ ^(sanitize|heap)$ ]] && ! command -v compute-sanitizer >/dev/null; then
	echo "compute-sanitizer is missing: it comes with CUDA's toolkit" >&2
	exit 1
fi
logs=${1:-logs}
mkdir -p "$logs" && logs=$(cd "$logs" && pwd) || exit 1
export REQUIRE_GPU=1
if [ -z "${RIBWARP_DATA:-}" ] && [ -d "$here/data" ]; then
	export RIBWARP_DATA=$here/data
fi
failed=0

machine() {
	nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
	grep -m1 'model name' /proc/cpuinfo
	echo "$(nproc) processors"
}

# figures FOLDER PATTERN [ARGUMENTS] prints a package's.
figures() {
	local package=$1 pattern=$2
	shift 2
	(cd "$here/$package" && "./$(basename "$package").test" -test.run '^$' -test.bench "$pattern" -test.benchtime 1x -test.timeout 30m "$@") | grep -v '^Benchmark'
}

bench_gpu() {
	machine
	figures flavors 'GPU([^OD]|Dev)'
}

bench_hash() {
	machine
	for package in linear slab dynamic; do
		figures kernels/hash/$package GPU
	done
	figures flavors 'GPU(OneChange|Destinations)'
}

bench_heap() {
	machine
	figures kernels/heap GPU
	figures cmd/ribwarp/internal/paths IGP
}

# bench_tune-gpu measures trees of all kinds of lists, to a file of its own, and those that a model fitted to it ranks
# best; models are fitted to both.
bench_tune-gpu() {
	local raw=$logs/tune-gpu.tsv models=$logs/models.json
	fit() { (cd "$here/flavors/tune" && TUNE_RAW=$raw TUNE_MODEL=$models ./tune.test -test.v -test.run ShippedModels); }
	rm -f "$models"
	figures flavors/tune GPUStrides | grep -v -E '^(goos|goarch|pkg|cpu|PASS|Benchmark)' >"$raw"
	fit >/dev/null # good enough to say what to measure next
	TUNE_ROUNDS=1 TUNE_FINAL=1 TUNE_ROWS=$raw TUNE_MODEL=$models figures flavors/tune GPUChoice >/dev/null
	rm -f "$models"
	machine
	fit
	TUNE_MODEL=$models figures flavors/tune GPUChoice
}

# bench NAME... writes the figures of files of docs/benchmarks.
bench() {
	for name in "$@"; do
		"bench_$name" 2>&1 | tee "$logs/$name.txt"
		if grep -qE -- '^(--- )?(FAIL|SKIP)|^panic' "$logs/$name.txt"; then
			failed=1
		fi
	done
}

# tests PATTERN TOOL... runs the packages whose folders match, with each tool; plain is none. With only it runs no
# other tests than those.
tests() {
	local packages=$1
	shift
	for tool in "$@"; do
		while read -r binary; do
			dir=$(dirname "$binary")
			command=("./$(basename "$binary")" -test.v -test.timeout=30m ${only:+-test.run "$only"})
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
			# Hazards between lanes of a warp are warnings, for which racecheck does not fail.
			if grep -q 'RACECHECK SUMMARY' "$log" && ! grep -q 'RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)' "$log"; then
				result="FAILED (hazards)"
				failed=1
			fi
			printf '%-16s %-10s %-26s %4ss  %s passed, %s skipped, %s failed\n' "$result" "$tool" "$dir" $((SECONDS - start)) \
				"$(grep -c -- '^--- PASS' "$log")" "$(grep -c -- '--- SKIP' "$log")" "$(grep -c -- '^--- FAIL' "$log")"
			[ "$result" = ok ] || grep -A20 -m3 -E -- '--- FAIL|^panic|SUMMARY|Race reported' "$log" | head -60
			grep -A3 -- '--- SKIP' "$log"
		done < <(cd "$here" && find . -name '*.test' -printf '%P\n' | grep -E "$packages" | sort)
	done
}

sanitizers=(memcheck racecheck initcheck synccheck)
case $what in
tests) tests . plain ;;
sanitize) tests . "${sanitizers[@]}" ;;
bench) bench gpu hash heap ;;
exits) only=PathGPU tests '^cmd/ribwarp/ribwarp' plain ;;
tune) bench tune-gpu ;;
heap)
	tests '^(kernels/heap|cmd/ribwarp/internal/paths)/' plain "${sanitizers[@]}"
	bench heap
	;;
esac
exit $failed
