#!/usr/bin/env bash
# What recording costs for each event, in nanoseconds of processor time: pairs of malloc and free, plain and recorded without stacks,
# alternating. Medians of the rounds; a pair is two events.
#
#   examples/traces/pairs.sh [ROUNDS]      default: 7; needs cc
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
needs cc
locate
rounds=${1:-7}
cc -O2 "$here/pairs.c" -o "$work/pairs"
cd "$work"
for ((round = 0; round < rounds; round++)); do
    ./pairs >>plain
    rm -rf traces
    "$allocanary" record --stack-sample off -o traces -- ./pairs 2>/dev/null >>recorded
done
plain=$(median <plain)
recorded=$(median <recorded)
awk -v plain="$plain" -v recorded="$recorded" 'BEGIN {
    printf "plain     %6.1f ns a pair\nrecorded  %6.1f ns a pair\nan event  %6.1f ns more\n", plain, recorded, (recorded - plain) / 2
}'
