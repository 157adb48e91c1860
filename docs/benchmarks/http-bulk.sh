#!/bin/sh
# Measures HTTP on one machine with its client: single lookups under wrk against a bare gin handler whose
# constant answer has the same size; a million addresses in one request as lines and in Arrow's format, the
# latter against an echo of the same bytes through the same server; the memory that a long stream
# takes. Alternately in one run. Writes http-bulk.txt beside itself. ROUNDS, SECONDS_A_RUN and STREAM change
# its length; MACHINE is what the file says it ran on.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
{
	echo "command: docs/benchmarks/http-bulk.sh"
	echo "machine: ${MACHINE:-$(nproc) cores, $(go env GOOS)/$(go env GOARCH)}; $(go env GOVERSION); clients on the same cores"
	CGO_ENABLED=0 go test ./api -v -count=1 -timeout 1h -run '^TestBulkRate$' -bulk-rounds "${ROUNDS:-20}" -bulk-stream "${STREAM:-100000000}"
	echo
	echo "single lookups, wrk -t2 -c64"
	CGO_ENABLED=0 go test ./api -v -count=1 -timeout 1h -run '^TestLookupRateUnderWrk$' -wrk "${SECONDS_A_RUN:-3}s" -wrk-rounds "${ROUNDS:-20}"
} | grep -v -e '^PASS$' -e '^ok ' -e '^=== RUN' -e '^--- PASS' | sed 's#http://127.0.0.1:[0-9]*/#http://127.0.0.1/#' | tee "$here/http-bulk.txt"
