#!/bin/bash
# What reading costs a server: redis-server under redis-benchmark, with walks and without them, alternating. First the walks follow each
# other without a pause; then they take 1 % of a core, as in `allocanary run`. Prints the ratio of each pair, the median of the ratios,
# the time of a walk, and the errors that the client saw.
# Usage: examples/heap/redis.sh [PATH OF allocanary] [WALKS one after the other] [PAIRS]
set -u
. "$(dirname "$0")/../lib.sh"
needs redis-server redis-benchmark
locate "${1:-}"
walks=${2:-200}
pairs=${3:-10}
start_redis
load() { redis-benchmark -s "$work/redis" -t set,get -n 200000 -r 100000 -d 200 -c 20 -P 4 --csv 2>>"$work/errors"; }
# Requests per second of one round: the mean of SET and GET.
rate() { awk -F'"' '$2 == "SET" || $2 == "GET" { sum += $4; count++ } END { printf "%.0f", sum / count }'; }
load >/dev/null
rm -f "$work/errors"
TIMEFORMAT='%R %U %S'
one() { # One walk. Its time and its processor time go to a file.
    { time "$allocanary" heap "$pid" --json >"$work/reading" 2>>"$work/told" || echo x >>"$work/undivided"; } 2>>"$work/walked"
}
together() { # As many times as a pair shall, while the load runs.
    for _ in $(seq $((walks / pairs))); do one; done
}
spaced() { # Until it is ended: after each walk it waits a hundred times the processor time of that.
    while one; do sleep "$(tail -1 "$work/walked" | awk '{ print ($2 + $3) * 100 }')"; done
}
count() { [ -e "$1" ] && wc -l <"$1" || echo 0; }
compare() { # FUNCTION: pairs with the walks that it makes and without.
    rm -f "$work/walked" "$work/undivided" "$work/errors"
    for pair in $(seq "$pairs"); do
        # The order changes, so that other work of the machine affects both sides.
        for turn in $([ $((pair % 2)) = 0 ] && echo with without || echo without with); do
            if [ "$turn" = with ]; then
                "$1" &
                walker=$!
                with=$(load | rate)
                [ "$1" = spaced ] && end "$walker"
                wait "$walker" 2>/dev/null
            else
                without=$(load | rate)
            fi
        done
        awk -v with="$with" -v without="$without" 'BEGIN { printf "with %d, without %d requests/s: ratio %.3f\n", with, without, with / without }'
    done | tee "$work/ratios"
    sed 's/.*ratio //' "$work/ratios" | spread | awk '{ print "median ratio " $1 ", least " $2 ", most " $3 }'
    echo "$(count "$work/walked") walks of $(awk '{ print $1 * 1000 }' "$work/walked" | median) ms, $(awk '{ print ($2 + $3) * 1000 }' "$work/walked" | median) ms of a processor (medians); $(count "$work/undivided") not analysed; errors of the client: $(count "$work/errors")"
}
echo 'Walks one after the other:'
compare together
echo 'Walks that take 1 % of a core:'
compare spaced
