# What all scripts of this folder share: the instances of a service, their resident memory, and forecasts.
# Each instance has a folder of its own ($at), a port ($port), and a process ($pid). `choose N` makes instance N the current one.

. "$(dirname "$0")/../lib.sh"
needs jq curl python3
locate
# The folder of what is built or downloaded once: the services' programs and their packages.
built=${DOOR_BUILT:-$HOME/.cache/allocanary-door}
# Seconds that a service waits after its burst, and again after a remedy. The blocking threads of tokio end after 10 s.
rest=${DOOR_REST:-15}
chmod 755 "$work"
mkdir -p "$built"
declare -a at_of port_of pid_of others_of
here_port=${DOOR_PORT:-18000}

at_end() { stop_all; }

# Loads the functions of one service. They are:
#   prepare    builds or installs the program, once
#   serve      starts the service with "${environment[@]}" and "${flags[@]}", sets $pid, and $others (processes to end with it)
#   burst SEED the load
#   counted    the line of smaps_rollup that counts (usual: Rss)
#   look       the processes to look at, for a service that is a tree (usual: $pid)
#   remedies   one a line: NAME now COMMAND, or NAME start [NAME=VALUE...] [FLAGS...]; code instead of start: a developer's change
service() {
    look() { echo "$pid"; }
    counted=Rss
    . "$here/services/$1.sh"
}

choose() { at=${at_of[$1]} port=${port_of[$1]} pid=${pid_of[$1]} others=${others_of[$1]}; }
keep() { at_of[$1]=$at port_of[$1]=$port pid_of[$1]=$pid others_of[$1]=$others; }

# Starts instance N with the given variables (NAME=VALUE) and flags (all other words).
start() {
    local number=$1 word
    shift
    environment=() flags=()
    for word; do
        if [[ $word =~ ^[A-Z_][A-Z0-9_]*= ]]; then environment+=("$word"); else flags+=("$word"); fi
    done
    at=$work/$number port=$((here_port + number)) pid= others=
    # Another measurement would get this one's load.
    if listening "$port"; then
        echo "port $port is taken: DOOR_PORT=NUMBER chooses other ports" >&2
        exit 1
    fi
    mkdir -p "$at"
    chmod 777 "$at"
    serve >"$at/log" 2>&1
    keep "$number"
}

stop() {
    choose "$1"
    # shellcheck disable=SC2086
    end $pid $others
    rm -rf "$at"
    pid_of[$1]= others_of[$1]=
}

stop_all() {
    for number in "${!pid_of[@]}"; do
        [ -n "${pid_of[$number]}" ] && stop "$number"
    done
}

load() { python3 "$here/load.py" "$port" "$@"; }

# Resident bytes of the processes to look at, summed. A process that has ended counts as 0.
resident() {
    local process
    for process in $(look); do
        cat "/proc/$process/smaps_rollup" 2>/dev/null
    done | awk -v counted="$counted:" '$1 == counted { sum += $2 } END { print sum * 1024 }'
}

# From the JSON of a dry run of give-back: its forecast, if give-back could be carried out.
dry_run='if any(.calls[]; .error) then "refused \(.reclaimable_bytes // 0)" elif .bound == "at_most" then "at_most \(.reclaimable_bytes // 0)"
    elif .reclaimable_bytes == null or .unknown_bytes > 0 and .reclaimable_bytes == 0 then "unknown 0" else "exact \(.reclaimable_bytes)" end'

# From the JSON of a reading: forecasts of remedies that are not the command's own. A trim that the service makes gives the same as the
# command's trim. Fewer arenas give at most the free bytes of the other arenas. A collection gives at most the heap and the virtual
# machine's tables for it. A fresh process gives at most everything that is not live.
reading='
    def of(parts): [.heaps[].parts_bytes | parts] | add // 0;
    def area(name): [.areas[] | select(.name == name) | .resident_bytes] | add // 0;
    def beyond(count): [.heaps[].arenas[].parts_bytes | .fragmentation + .free_pages] | sort | .[:-count] | add // 0;
    if $id | test("jcmd-trim|trim-interval|trim-by-itself") then "exact \([.heaps[].remedies[].reclaimable_bytes] | add // 0)"
    elif $id == "arena-max-1" then "at_most \(beyond(1))"
    elif $id == "arena-max-2" then "at_most \(beyond(2))"
    elif $id | test("^(jcmd-gc|set-periodic-gc|periodic-gc)$") then "at_most \(area("the JVM\u0027s heap") + area("not known"))"
    elif $id == "end-the-session" then "exact \(.kernel.anonymous_bytes)"
    elif $id == "reload" and area("PHP\u0027s kept chunks") > 0 then "exact \(area("PHP\u0027s kept chunks"))"
    elif $id | test("^(reload|restart)$") then "at_most \(.resident_bytes - of(.live))"
    else empty end'

# The command's forecast for a remedy, `KIND BYTES`: from the remedies of `allocanary PROCESS` if they have it, otherwise from a dry run
# or a reading.
forecast() {
    local process kind=unknown bytes=0 found
    for process in $(look); do
        found=$("$allocanary" "$process" --json 2>/dev/null |
            jq -r --arg id "$1" '.remedies[]? | select(.id == $id) | "\(.gives.bound) \(.gives.reclaimable_bytes // 0)"' 2>/dev/null | head -1)
        if [ -z "$found" ] && [ "$1" = give-back ]; then
            found=$("$allocanary" give-back "$process" --dry-run --json 2>/dev/null | jq -r "$dry_run")
        elif [ -z "$found" ]; then
            found=$(reading "$process" | jq -r --arg id "$1" "$reading")
        fi
        [ -z "$found" ] && continue
        kind=${found% *}
        bytes=$((bytes + ${found#* }))
    done
    echo "$kind $bytes"
}

give_back() {
    local process
    for process in $(look); do
        "$allocanary" give-back "$process" --yes
    done
}
