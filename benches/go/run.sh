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
study() {
    local case=$1
    shift
    "$allocanary" study "$case" --cells "$here" --candidates "$@" system jemalloc mimalloc "${flags[@]}" || failed=1
}
flags=("$@")
study list go
study blob go
# The storm's own workloads are without and with a ballast of 64 MiB; beside it, what Go has had instead since 1.19: a limit,
# with the usual collections and with none below it. The runtime counts the ballast too: the limit leaves three times
# the 42 MiB of a burst.
study storm go go:gomemlimit=192MiB go:gogc=-1,gomemlimit=192MiB

# Ballast, GOGC and GOMEMLIMIT side by side: Go alone.
"$allocanary" study ballast --cells "$here" "${flags[@]}" || failed=1

# A row of Go in a report that is there already:
#   allocanary study list --cells benches/go --candidates go --out go.jsonl
#   allocanary report allocanary-out/cases-1 go.jsonl
exit $failed
