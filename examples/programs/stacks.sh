#!/usr/bin/env bash
# What stacks cost: processor time of three programs, plain and recorded without stacks, with one in ten, and with all.
# The minimum of REPEATS runs (default 5); the four ways alternate.
#
#   examples/programs/stacks.sh target/release/preload-record        # in this repository: git reads its history
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
needs git redis-server redis-cli redis-benchmark /usr/bin/python3
recorder=$(realpath "${1:?wanted the path of preload-record}")
repeats=${REPEATS:-5}
port=$(free_port)

ended() { cpu_ms env "$@"; } # NAME=VALUE... PROGRAM ARGS

served() { # NAME=VALUE...
    env "$@" redis-server --port "$port" --save '' --dir "$work" >/dev/null 2>&1 &
    local server=$!
    ready $server redis-cli -p "$port" ping
    redis-benchmark -p "$port" -P 8 -n 300000 -r 50000 -d 200 -t set,lpush -q >/dev/null
    cpu_ms_of $server
    end $server
}

row() { # NAME FUNCTION PROGRAM ARGS
    local name=$1 run=$2
    shift 2
    declare -A best=()
    for _ in $(seq "$repeats"); do
        for stacks in plain 0 10 1; do
            mkdir -p "$work/traces" && rm -f "$work"/traces/*
            local recording=()
            [ $stacks = plain ] ||
                recording=("LD_PRELOAD=$recorder" "ALLOCANARY_RECORD=$work/traces" "ALLOCANARY_RECORD_STACK_SAMPLE=$stacks")
            local spent
            # Not in $(...), where the end of the script would not find the server.
            $run "${recording[@]}" "$@" >"$work/spent"
            spent=$(cat "$work/spent")
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
