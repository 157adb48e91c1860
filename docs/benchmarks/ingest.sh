#!/bin/sh
# Routes in over sessions, the speakers in the same process as the service: three peers with full tables, loss of a
# peer with a full table, 24 hours of a real peer's updates at full speed, 150,000 changes in a second. Writes ingest.txt
# beside itself. RIBWARP_DATA is the folder of the real data, MACHINE what the file says it ran on.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
{
	echo "command: docs/benchmarks/ingest.sh"
	echo "machine: ${MACHINE:-$(nproc) cores, $(go env GOOS)/$(go env GOARCH)}; $(go env GOVERSION)"
	for one in ThreePeers PeerLoss Replay Burst; do
		CGO_ENABLED=0 go test ./cmd/ribwarp -run '^$' -bench "^Benchmark$one\$" -benchtime 1x -count "${RUNS:-3}" -timeout 30m
	done
} | grep -v -e '^PASS$' -e '^ok ' | tee "$here/ingest.txt"
