#!/usr/bin/env bash
# Runs the published cases with Go among the candidates, in one shuffled run for each case. In: Go must be installed; flags go
# to `allocanary study`. Out: allocanary-out/NAME-N, and a report of each; 1 if a cell failed. Without Go it prints a message and does nothing.
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
# The storm's own workloads run without and with a ballast of 64 MiB. The other candidates are what Go offers instead since
# 1.19: a memory limit, with the usual collections, and with collections only at the limit. The runtime counts the ballast
# too, so the limit leaves three times the 42 MiB of a burst.
study storm go go:gomemlimit=192MiB go:gogc=-1,gomemlimit=192MiB

# Compares ballast, GOGC and GOMEMLIMIT: Go alone.
"$allocanary" study ballast --cells "$here" "${flags[@]}" || failed=1

# To add a row of Go to an existing report:
#   allocanary study list --cells benches/go --candidates go --output go.jsonl
#   allocanary report allocanary-out/cases-1 go.jsonl
exit $failed
