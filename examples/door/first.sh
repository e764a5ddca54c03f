#!/bin/bash
# Tries the remedy that `allocanary PROCESS` names first. For each service, an untouched twin and one instance get the same burst and
# wait; then the first remedy is applied to the instance. Prints a row for each: the remedy, the forecast, and what it gave, less what the
# twin lost, in MiB; and how much of the memory is not known before it, in percent. A setting for the next start is tried by a third instance. Usage: examples/door/first.sh [SERVICE...], as root.
# Variables: those of measure.sh, DOOR_SCREENS (a folder: what `allocanary PROCESS` shows of each service on 80 columns), and DOOR_NTH (2: the
# remedy that is named second).
set -u
. "$(dirname "$0")/lib.sh"
[ $# -gt 0 ] || set -- $(cd "$here/services" && ls | sed 's/\.sh$//')

# The first remedy that the command names for all processes of the current instance: KIND, the sum of BYTES, ID and WHO, its check, and its
# lines; and what is not known, in percent. Memory of nobody is the program's own if all heaps are divided.
said() {
    local process
    for process in $(look); do
        "$allocanary" "$process" --json
    done | jq -s --argjson nth "${DOOR_NTH:-1}" '
        def divided: .heaps != [] and .problems == [] and all(.heaps[]; .sure != "not_known");
        def unknown: ([.heaps[].parts_bytes.unknown // 0] | add // 0)
            + (if divided then 0 else [.areas[] | select(.name == "not known") | .resident_bytes] | add // 0 end);
        ((map(.reading | unknown) | add) * 100 / (map(.reading.resident_bytes) | add)) as $unknown
        | [.[] | .remedies[$nth - 1] // {id: "nothing", who: "-", gives: {bound: "unknown"}, lines: []}] |
        {id: .[0].id, who: .[0].who, check: .[0].check, kind: .[0].gives.bound, bytes: (map(.gives.reclaimable_bytes // 0) | add), $unknown,
         lines: [.[] | .lines as $lines | $lines[] | select(.place == $lines[0].place) | .text] | unique,
         place: .[0].lines[0].place}'
}

# Carries out one line, as a person would.
line() {
    case $place in
    SQL) psql -q -h "$at" -p "$port" -U postgres -c "$1" postgres ;;
    redis-cli) redis-cli -p "$port" $1 ;;
    *) eval "${1/allocanary give-back/$allocanary give-back --yes}" ;;
    esac
}

printf '| service | said first | who | before | forecast | gave | not known |\n|---|---|---|--:|--:|--:|--:|\n'
for name; do
    service "$name"
    prepare >"$work/prepare" 2>&1 || { cat "$work/prepare" >&2; continue; }
    loaded=1
    for number in 0 1; do
        start "$number"
        choose "$number"
        burst 1 >>"$at/log" 2>&1 || { cat "$at/log" >&2; loaded=; }
    done
    # A service without its load would have a row, and a screen, of a process that has just started.
    [ -n "$loaded" ] || { echo "$name did not get its load" >&2; stop_all; continue; }
    sleep "$rest"
    choose 0
    twin=$(resident)
    choose 1
    before=$(resident)
    [ "$before" -gt 0 ] || { echo "$name does not run" >&2; stop_all; continue; }
    [ -n "${DOOR_SCREENS:-}" ] && COLUMNS=80 "$allocanary" "$(look | head -1)" >"$DOOR_SCREENS/$name.txt"
    first=$(said)
    place=$(jq -r .place <<<"$first") who=$(jq -r .who <<<"$first")
    # An unknown forecast cannot be compared with a figure.
    [ "$(jq -r .kind <<<"$first")" = unknown ] && who="$who, not tried"
    [ "$(jq -r .check <<<"$first")" = refused ] && who="$who, not possible"
    mapfile -t lines < <(jq -r '.lines[]' <<<"$first")
    case $who in
    operator-now)
        for one in "${lines[@]}"; do line "$one" >>"$at/said" 2>&1 || tail -2 "$at/said" >&2; done
        sleep "$rest"
        after=$(resident)
        choose 0
        gave=$((before - after - (twin - $(resident))))
        ;;
    operator-restart)
        # This line prints the variables to start the program with.
        [[ ${lines[0]} == "allocanary preload "* ]] &&
            read -ra lines < <(eval "${lines[0]/#allocanary/$allocanary}" | sed -n 's/^ *\(LD_PRELOAD=.*\) PROGRAM$/\1/p')
        # A variable is pasted in a shell, which takes its quotes away.
        [ "$place" = environment ] && eval "lines=(${lines[*]})"
        start 2 "${lines[@]}"
        choose 2
        kill -0 "$pid" 2>/dev/null || { echo "$name does not start with ${lines[*]}" >&2; stop_all; continue; }
        burst 1 >>"$at/log" 2>&1
        sleep "$rest"
        gave=$((before - $(resident)))
        ;;
    developer)
        # The programs of this folder have the developer's change behind a flag.
        start 2 trim
        choose 2
        burst 1 >>"$at/log" 2>&1
        sleep "$rest"
        gave=$((before - $(resident)))
        ;;
    *) gave=0 ;;
    esac
    printf '| %s | `%s` | %s | %s | %s %s | %s | %.1f %% |\n' "$name" "$(jq -r .id <<<"$first")" "$who" "$(mib "$before")" \
        "$(jq -r .kind <<<"$first")" "$(mib "$(jq -r .bytes <<<"$first")")" "$(mib "$gave")" "$(jq -r .unknown <<<"$first")"
    stop_all
done
