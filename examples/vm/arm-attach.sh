#!/bin/bash
# The first table of docs/lab/arm.md of recorders in running programs. It runs in the machine of arm.sh and on any other machine: sites.c knows
# what each of its functions allocates after a line of input. A recorder is put into it three times: until it is taken out, until its command is
# killed, and once more after that.
#
#   examples/vm/arm-attach.sh [FOLDER of allocanary and its preloads [NAME=SITES[:PRELOAD]...]]
#
# SITES is sites.c, built for this machine; without any it is compiled. Exits with 1 if a figure is wrong.
set -u
. "$(dirname "$0")/../lib.sh"
needs jq awk mkfifo
locate "${1:-}"
[ $# -gt 0 ] && shift
if [ $# = 0 ]; then
    needs cc
    { cc -O1 -pthread -Wl,-z,lazy -o "$work/sites" "$here/sites.c" && cc -O1 -pthread -Wl,-z,now -o "$work/sites-now" "$here/sites.c"; } || exit 2
    set -- "glibc=$work/sites" "glibc, read-only words=$work/sites-now"
    jemalloc=$(find /usr/lib -name libjemalloc.so.2 2>/dev/null | head -n 1)
    [ -z "$jemalloc" ] || set -- "$@" "jemalloc of Debian=$work/sites:$jemalloc"
fi
status=0
bad() { echo "wrong: $*" >&2; status=1; }
at_end() { exec 8>&- 9<&-; }

# Puts a recorder into $pid, with $recorder: attach FOLDER
attach() {
    "$allocanary" record --attach "$pid" -o "$1" >"$work/said" 2>&1 &
    recorder=$!
    ready "$recorder" grep -q 'recording: ' "$work/said"
}
# Takes it out, as Ctrl-C does.
take_out() { kill -INT "$recorder" && wait "$recorder"; }
# Ends the command without warning. A second recorder is then refused, and the first one is taken out by hand.
after_a_kill() {
    kill -9 "$recorder"
    wait "$recorder" 2>/dev/null
    "$allocanary" record --attach "$pid" --for 1s -o "$work/refused" 2>&1 | grep -q 'put into it already, and records' || return 1
    ask go
    "$allocanary" record --detach "$pid" >>"$work/said" 2>&1
}

echo "Linux $(uname -r), $(uname -m)"
echo
echo '| program | recorder | functions | bytes and blocks equal | words changed | put back | trace |'
echo '|---|---|--:|--:|--:|--:|---|'
for one; do
    name=${one%%=*} program=${one#*=}
    [[ $program != *:* ]] && library= || library=${program#*:}
    converse env LD_PRELOAD="$library" "${program%%:*}" 1 "$work/truth" lines
    [ "$answer" = waits ] || { bad "$name does not start"; continue; }
    for round in first killed second; do
        rm -rf "$work/traces"
        attach "$work/traces" || { bad "$name, $round: $(cat "$work/said")"; continue; }
        case $round in
        killed) after_a_kill || bad "$name, after a kill: $(cat "$work/said")" ;;
        *) ask go && take_out || bad "$name, $round: $(cat "$work/said")" ;;
        esac
        trace=$(ls "$work"/traces/*.trace)
        "$allocanary" who "$trace" --json >"$work/found" 2>"$work/why" || bad "who of $name, $round: $(tail -n 3 "$work/why")"
        jq -r '.sites[] | "\(.name) \(.requested_bytes) \(.blocks) \(.allocated_total_bytes) \(.allocations)"' "$work/found" >"$work/sites-found"
        equal=$(awk 'NR == FNR { of[$0]; next } $0 in of { equal++ } END { print equal + 0 }' "$work/sites-found" "$work/truth")
        check=$("$allocanary" trace check "$trace" 2>&1 | head -n 1)
        changed=$(sed -n 's/.* \([0-9]*\) \(more \)\?words of .* changed.*/\1/p' "$work/said" | awk '{ all += $1 } END { print all + 0 }')
        back=$(sed -n 's/.* \([0-9]*\) words put back; .*/\1/p' "$work/said")
        echo "| $name | $round | $(wc -l <"$work/truth") | $equal | $changed | ${back:-none} | $check |"
        [ "$answer $equal $changed" = "ready 8 ${back:-none}" ] || { bad "$name, $round"; diff "$work/truth" "$work/sites-found" >&2; cat "$work/said" >&2; }
    done
    ask go
    [ "$answer" = ready ] || bad "$name has ended"
    end "$pid"
done
exit $status
