#!/bin/sh
# Measures GET /api/v1/lookup/{ip} against a bare gin handler whose constant answer has the same
# size, alternately in one run, with wrk on the same machine. Writes http-lookup.txt beside
# itself. SECONDS_A_RUN and ROUNDS change its length; MACHINE is what the file says it ran on.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
{
	echo "command: docs/benchmarks/http-lookup.sh"
	echo "machine: ${MACHINE:-$(nproc) cores, $(go env GOOS)/$(go env GOARCH)}; $(go env GOVERSION); wrk -t2 -c64 on the same cores"
	CGO_ENABLED=0 go test ./api -v -count=1 -run '^TestLookupRateUnderWrk$' -wrk "${SECONDS_A_RUN:-3}s" -wrk-rounds "${ROUNDS:-20}"
} | grep -v -e '^PASS$' -e '^ok ' -e '^=== RUN' -e '^--- PASS' | sed 's#http://127.0.0.1:[0-9]*/#http://127.0.0.1/#' | tee "$here/http-lookup.txt"
