#!/usr/bin/env bash
# What stacks cost: processor time of three programs, plain and recorded without stacks, with one in ten, and with all.
# The minimum of REPEATS runs (default 5); the four ways alternate.
#
#   examples/programs/stacks.sh target/release/preload-record        # in this repository: git reads its history
set -euo pipefail
recorder=$(realpath "${1:?wanted the path of preload-record}")
repeats=${REPEATS:-5}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Milliseconds of user and system time of one process.
ticks() { awk -v hz="$(getconf CLK_TCK)" '{ print int(($14 + $15) * 1000 / hz) }' "/proc/$1/stat"; }

ended() { # NAME=VALUE... PROGRAM ARGS
    local TIMEFORMAT='%U %S'
    { time env "$@" >/dev/null 2>&1; } 2>&1 | awk '{ print int(($1 + $2) * 1000) }'
}

served() { # NAME=VALUE...
    env "$@" redis-server --port 7931 --save '' --dir "$folder" >/dev/null 2>&1 &
    local server=$!
    until redis-cli -p 7931 ping >/dev/null 2>&1; do sleep 0.1; done
    redis-benchmark -p 7931 -P 8 -n 300000 -r 50000 -d 200 -t set,lpush -q >/dev/null
    ticks $server
    redis-cli -p 7931 shutdown nosave >/dev/null 2>&1 || true
    wait $server || true
}

row() { # NAME FUNCTION PROGRAM ARGS
    local name=$1 run=$2
    shift 2
    declare -A best=()
    for _ in $(seq "$repeats"); do
        for stacks in plain 0 10 1; do
            mkdir -p "$folder/traces" && rm -f "$folder"/traces/*
            local recording=()
            [ $stacks = plain ] ||
                recording=("LD_PRELOAD=$recorder" "ALLOCANARY_RECORD=$folder/traces" "ALLOCANARY_RECORD_STACK_SAMPLE=$stacks")
            local spent
            spent=$($run "${recording[@]}" "$@")
            [ "${best[$stacks]:-999999999}" -le "$spent" ] || best[$stacks]=$spent
        done
    done
    awk -v name="$name" -v plain="${best[plain]}" -v off="${best[0]}" -v tenth="${best[10]}" -v all="${best[1]}" \
        'BEGIN { printf "| %s | %d ms | %.2f | %.2f | %.2f |\n", name, plain, off / plain, tenth / plain, all / plain }'
}

echo '| program | plain | `--stack-sample off` | `--stack-sample 1/10` | `--stack-sample all` |'
echo '|---|--:|--:|--:|--:|'
row 'git log --stat -p' ended git log -60 --stat -p
row 'python3' ended /usr/bin/python3 -c 'x = [{"a": [i] * 9} for i in range(60000)]'
row 'python3, `PYTHONMALLOC=malloc`' ended PYTHONMALLOC=malloc /usr/bin/python3 -c 'x = [{"a": [i] * 9} for i in range(60000)]'
row 'redis-server' served
