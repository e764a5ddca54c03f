#!/bin/bash
# What reading costs a server: redis-server under redis-benchmark, with walks and without in turns. Prints the ratio of each pair, the
# median of them, and the errors that the client saw.
# Usage: examples/heap/redis.sh [PATH OF allocanary] [WALKS, all together] [PAIRS]
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
# Requests a second of one round: the mean of SET and GET.
rate() { awk -F'"' '$2 == "SET" || $2 == "GET" { sum += $4; count++ } END { printf "%.0f", sum / count }'; }
load >/dev/null
rm -f "$folder/errors"
done=0 broken=0
walk() { # Walks as many times as a pair shall, while the load runs.
    for _ in $(seq $((walks / pairs))); do
        "$command" heap "$server" --json >"$folder/reading" 2>>"$folder/told" || echo x >>"$folder/undivided"
        echo x >>"$folder/walked"
    done
}
for pair in $(seq "$pairs"); do
    # The order changes, so that what the machine does meanwhile falls on both.
    for turn in $([ $((pair % 2)) = 0 ] && echo with without || echo without with); do
        if [ "$turn" = with ]; then
            walk &
            walker=$!
            with=$(load | rate)
            wait "$walker"
        else
            without=$(load | rate)
        fi
    done
    awk -v with="$with" -v without="$without" 'BEGIN { printf "with %d, without %d requests/s: ratio %.3f\n", with, without, with / without }'
done | tee "$folder/ratios"
count() { [ -e "$1" ] && wc -l <"$1" || echo 0; }
sed 's/.*ratio //' "$folder/ratios" | sort -g | awk '{ all[NR] = $1 } END { print "median ratio " all[int((NR + 1) / 2)] ", least " all[1] ", most " all[NR] }'
echo "$(count "$folder/walked") walks, $(count "$folder/undivided") not divided; errors of the client: $(count "$folder/errors")"
