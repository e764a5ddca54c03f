#!/usr/bin/env bash
# What recording costs for each event, in nanoseconds of processor time: pairs of malloc and free, plain and recorded without stacks,
# alternating. Medians of the rounds; a pair is two events.
#
#   examples/traces/pairs.sh [ROUNDS]      default: 7; needs cc
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
allocanary=${ALLOCANARY:-$here/../../target/release/allocanary}
rounds=${1:-7}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cc -O2 "$here/pairs.c" -o "$out/pairs"
cd "$out"
for ((round = 0; round < rounds; round++)); do
    ./pairs >>plain
    rm -rf traces
    "$allocanary" record --stack-sample off -o traces -- ./pairs 2>/dev/null >>recorded
done
median() { sort -n "$1" | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }
plain=$(median plain)
recorded=$(median recorded)
awk -v plain="$plain" -v recorded="$recorded" 'BEGIN {
    printf "plain     %6.1f ns a pair\nrecorded  %6.1f ns a pair\nan event  %6.1f ns more\n", plain, recorded, (recorded - plain) / 2
}'
