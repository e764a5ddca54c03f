#!/bin/bash
# What reading costs a server: redis-server under redis-benchmark, with walks and without them, alternating. First the walks follow each
# other without a pause; then they take 1 % of a core, as in `allocanary run`. Prints the ratio of each pair, the median of the ratios,
# the time of a walk, and the errors that the client saw.
# Usage: examples/heap/redis.sh [PATH OF allocanary] [WALKS one after the other] [PAIRS]
set -u
command=$(realpath "${1:-target/release/allocanary}")
walks=${2:-200}
pairs=${3:-10}
folder=$(mktemp -d)
redis-server --port 0 --unixsocket "$folder/socket" --save '' --dir "$folder" >/dev/null &
server=$!
trap 'kill "$server"; rm -rf "$folder"' EXIT
until [ -S "$folder/socket" ]; do sleep 0.1; done
load() { redis-benchmark -s "$folder/socket" -t set,get -n 200000 -r 100000 -d 200 -c 20 -P 4 --csv 2>>"$folder/errors"; }
# Requests per second of one round: the mean of SET and GET.
rate() { awk -F'"' '$2 == "SET" || $2 == "GET" { sum += $4; count++ } END { printf "%.0f", sum / count }'; }
load >/dev/null
rm -f "$folder/errors"
TIMEFORMAT='%R %U %S'
one() { # One walk. Its time and its processor time go to a file.
    { time "$command" heap "$server" --json >"$folder/reading" 2>>"$folder/told" || echo x >>"$folder/undivided"; } 2>>"$folder/walked"
}
together() { # As many times as a pair shall, while the load runs.
    for _ in $(seq $((walks / pairs))); do one; done
}
spaced() { # Until it is ended: after each walk it waits a hundred times the processor time of that.
    while one; do sleep "$(tail -1 "$folder/walked" | awk '{ print ($2 + $3) * 100 }')"; done
}
count() { [ -e "$1" ] && wc -l <"$1" || echo 0; }
median() { sort -g | awk '{ all[NR] = $1 } END { print NR ? all[int((NR + 1) / 2)] : "-" }'; }
compare() { # FUNCTION: pairs with the walks that it makes and without.
    rm -f "$folder/walked" "$folder/undivided" "$folder/errors"
    for pair in $(seq "$pairs"); do
        # The order changes, so that other work of the machine affects both sides.
        for turn in $([ $((pair % 2)) = 0 ] && echo with without || echo without with); do
            if [ "$turn" = with ]; then
                "$1" &
                walker=$!
                with=$(load | rate)
                [ "$1" = spaced ] && kill "$walker"
                wait "$walker" 2>/dev/null
            else
                without=$(load | rate)
            fi
        done
        awk -v with="$with" -v without="$without" 'BEGIN { printf "with %d, without %d requests/s: ratio %.3f\n", with, without, with / without }'
    done | tee "$folder/ratios"
    sed 's/.*ratio //' "$folder/ratios" | sort -g | awk '{ all[NR] = $1 } END { print "median ratio " all[int((NR + 1) / 2)] ", least " all[1] ", most " all[NR] }'
    echo "$(count "$folder/walked") walks of $(awk '{ print $1 * 1000 }' "$folder/walked" | median) ms, $(awk '{ print ($2 + $3) * 1000 }' "$folder/walked" | median) ms of a processor (medians); $(count "$folder/undivided") not divided; errors of the client: $(count "$folder/errors")"
}
echo 'Walks one after the other:'
compare together
echo 'Walks that take 1 % of a core:'
compare spaced
