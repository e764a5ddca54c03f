#!/usr/bin/env bash
# Runs the published cases with Go among the candidates, in one shuffled run for each case. In: nothing but Go; flags go
# to `allocanary study`. Out: allocanary-out/NAME-N, and a report of each; 1 where a cell of one failed. Without Go it says so and does nothing.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

if ! command -v go >/dev/null; then
    echo "there is no go here: the cases run without it (allocanary study cases)"
    exit 0
fi
(cd "$here" && go build -trimpath -o cell-go .)

allocanary=${ALLOCANARY:-allocanary}
command -v "$allocanary" >/dev/null || allocanary="$here/../../target/release/allocanary"
failed=0
for case in list blob storm; do
    "$allocanary" study "$case" --cells "$here" --candidates go system jemalloc mimalloc "$@" || failed=1
done

# A row of Go in a report that is there already:
#   allocanary study list --cells benches/go --candidates go --out go.jsonl
#   allocanary report allocanary-out/cases-1 go.jsonl
exit $failed
