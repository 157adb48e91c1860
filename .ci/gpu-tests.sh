#!/usr/bin/env bash
# Makes the folder gpu-tests: the test binaries of all packages that test on devices, ribwarp and
# ribwarp-cuda as make built them, and run.sh to run them on a machine that has a GPU and needs no Go.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
out=gpu-tests

rm -rf "$out"
mkdir "$out"
cp ribwarp ribwarp-cuda "$out/"
cp .ci/gpu-tests-run.sh "$out/run.sh"

# Packages whose tests import kernels/device or what lies below it.
packages=$($go list -tags cuda -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' ./... |
	awk '/[[ ]github.com\/ribwarp\/ribwarp\/kernels\/device[]\/ ]/ { print $1 }')
for package in $packages; do
	dir=${package#github.com/ribwarp/ribwarp/}
	echo "$dir"
	mkdir -p "$out/$dir"
	CGO_ENABLED=1 $go test -c -tags cuda -ldflags '-s -w' -o "$out/$dir/$(basename "$dir").test" "./$dir"
	if [ -d "$dir/testdata" ]; then
		cp -r "$dir/testdata" "$out/$dir/"
	fi
done
