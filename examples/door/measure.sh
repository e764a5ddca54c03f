#!/bin/bash
# Tries every remedy of services: writes one row of JSON for each remedy and round to FILE (rows.jsonl), and nothing else.
# In each round an untouched twin and one instance for each remedy start, and get the same burst by the same seed. All of them wait. Then
# each remedy that can be carried out now is carried out on its instance. All wait again, and all are read once more.
# Usage: examples/door/measure.sh [-n ROUNDS] [-s FIRST SEED] [-o FILE] [SERVICE...], as root. `table.sh FILE` makes the table. Needs jq, curl and python3.
# Variables: ALLOCANARY (the command), DOOR_REST (seconds), DOOR_BUILT (folder of what is built), DOOR_ONLY (remedies, a pattern), DOOR_PORT
# (the first port: two that measure at a time need ranges of their own).
set -u
. "$(dirname "$0")/lib.sh"
rounds=3 first=1 rows=rows.jsonl
while getopts n:s:o: option; do
    case $option in
    n) rounds=$OPTARG ;;
    s) first=$OPTARG ;;
    o) rows=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || set -- $(cd "$here/services" && ls | sed 's/\.sh$//')

# One round of the current service. Instance 0 is the twin.
round() {
    local seed=$1 names=(twin) whens=(none) whats=('') number name when what
    while read -r name when what; do
        [[ $name =~ ${DOOR_ONLY:-.} ]] || continue
        names+=("$name") whens+=("$when") whats+=("$what")
    done < <(remedies)
    local failed=() fresh=() before=() after=() forecasts=()
    # Shuffled by the seed: the instance that starts first has the machine for itself, and has waited longest when all are read.
    for number in $(shuf -e --random-source=<(yes "$seed") "${!names[@]}"); do
        if [[ ${whens[number]} =~ start|code ]]; then
            # shellcheck disable=SC2086
            start "$number" ${whats[number]}
        else
            start "$number"
        fi
        choose "$number"
        fresh[number]=$(resident)
        failed[number]=
        burst "$seed" >>"$at/log" 2>&1 || failed[number]=$(tail -1 "$at/log")
    done
    sleep "$rest"
    for number in "${!names[@]}"; do
        choose "$number"
        before+=("$(resident)")
        # A setting for the next start is forecast from a process without the setting.
        [[ ${whens[number]} =~ start|code ]] && choose 0
        forecasts+=("$(forecast "${names[number]}")")
    done
    for number in "${!names[@]}"; do
        [ "${whens[number]}" = now ] || continue
        choose "$number"
        eval "${whats[number]}" >"$at/said" 2>&1 || failed[number]=$(grep -v '^ *$' "$at/said" | tail -1)
        keep "$number"
    done
    sleep "$rest"
    for number in "${!names[@]}"; do
        choose "$number"
        after+=("$(resident)")
        jq -nc --arg service "$service" --arg remedy "${names[number]}" --arg when "${whens[number]}" --arg what "${whats[number]}" \
            --arg failed "${failed[number]}" --argjson seed "$seed" --argjson fresh "${fresh[number]}" --argjson before "${before[number]}" --argjson after "${after[number]}" \
            --argjson twin_before "${before[0]}" --argjson twin_after "${after[0]}" \
            --arg kind "${forecasts[number]% *}" --argjson forecast "${forecasts[number]#* }" '$ARGS.named' >>"$rows"
    done
    stop_all
}

for service; do
    service "$service"
    prepare >"$work/prepare" 2>&1 || { echo "$service is left out: $(tail -1 "$work/prepare")" >&2; continue; }
done
for ((seed = first; seed < first + rounds; seed++)); do
    for service; do
        service "$service"
        round "$seed"
    done
done
