#!/usr/bin/env bash
# GPU figures: needs an NVIDIA GPU, and Go and CUDA's headers unless the folder gpu-tests was made
# elsewhere. Writes gpu.txt, hash.txt and heap.txt beside this script.
set -euo pipefail
cd "$(dirname "$0")/../.."
export RIBWARP_DATA=${RIBWARP_DATA:-$PWD/../shared/data}
[ -d gpu-tests ] || make gpu-tests
logs=$(mktemp -d)
gpu-tests/run.sh bench "$logs"
cp "$logs/gpu.txt" "$logs/hash.txt" "$logs/heap.txt" docs/benchmarks/
