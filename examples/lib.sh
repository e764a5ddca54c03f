# shellcheck shell=bash disable=SC2034
# What the scripts of these folders share. A script sets its own options, reads this file, and says what it needs:
#
#     set -euo pipefail
#     . "$(dirname "$0")/../lib.sh"
#     needs cc jq
#     locate "${1:-}"
#
# At the end of a script, also by a signal, its background processes are ended and $work is removed. A script that has more to undo
# defines `at_end`. Exit code 2: a tool, a file or a right is missing, and nothing was measured.

# The root of the clone, the folder of the script, and a new folder for what the script writes.
root=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")
here=$(realpath "$(dirname "$0")")
work=$(mktemp -d)

at_end() { :; }
trap 'end $(jobs -pr); at_end; rm -rf "$work"' EXIT
# A program that ends well by Ctrl-C must not let the script go on.
trap 'exit 130' INT

# Ends the script: says what is missing, and what to do.
fail() {
    echo "${0##*/}: $*" >&2
    exit 2
}

# Fails if one of the tools is missing.
needs() {
    local tool missing=()
    for tool; do command -v "$tool" >/dev/null || missing+=("$tool"); done
    [ ${#missing[@]} = 0 ] || fail "wanted ${missing[*]} in PATH, found none: install what is missing"
}

# Fails unless root runs the script: needs_root WHAT FOR.
needs_root() { [ "$(id -u)" = 0 ] || fail "wanted root for $1, found user $(id -un): start it with sudo"; }

# Whether the tools are there. If one is not, a line says so, because the script leaves out what needs it.
has() {
    local tool
    for tool; do command -v "$tool" >/dev/null || { echo "left out: $tool is not installed" >&2; return 1; }; done
}

# Whether a row is wanted: wanted NAME [NAMES...]. Without NAMES each is.
wanted() { [ $# = 1 ] || [[ " ${*:2} " == *" $1 "* ]]; }

# Sets $allocanary, the command, and $bin, the folder of it and its preloads. In: the folder or the command; else $ALLOCANARY; else
# target/release of the clone.
locate() {
    allocanary=$(realpath -m "${1:-${ALLOCANARY:-$root/target/release}}")
    [ ! -d "$allocanary" ] || allocanary=$allocanary/allocanary
    bin=${allocanary%/*}
    [ -x "$allocanary" ] || fail "wanted the command at $allocanary, found none: cargo build --release --workspace --bins --features prometheus,leaks"
}

# Builds the command, the cells, the preloads and the examples that are named: build [--example NAME]...
build() { (cd "$root" && cargo build --release --quiet --locked --workspace --bins --features prometheus,leaks "$@") || fail "cargo could not build: see above"; }

# The file to preload for an allocator: nothing for glibc. If it is not there, a line says so.
preload_of() {
    local file
    case $1 in
    glibc) return ;;
    *Debian) file=$(find /usr/lib -name libjemalloc.so.2 2>/dev/null | head -1) ;;
    *) file=$bin/preload-$1 ;;
    esac
    [ -e "$file" ] || { echo "left out: $1 is not installed" >&2; return 1; }
    echo "$file"
}

# One reading of a process, as JSON: reading PID [FLAGS]... What `heap` says beside it is in $work/why.
reading() { "$allocanary" heap "$@" --json 2>"$work/why"; }

# Ends processes: by SIGTERM, and by SIGKILL after 30 s.
end() {
    [ $# -gt 0 ] || return 0
    local pid
    kill "$@" 2>/dev/null || true
    for pid; do
        for _ in {1..300}; do
            kill -0 "$pid" 2>/dev/null || continue 2
            sleep 0.1
        done
        kill -9 "$pid" 2>/dev/null || true
    done
    wait "$@" 2>/dev/null || true
}

# Waits until a command succeeds, for 30 s at most, while the process lives: ready PID COMMAND... It does not ask at once: a process
# whose port is taken ends, and another one answers there.
ready() {
    for _ in {1..300}; do
        sleep 0.1
        kill -0 "$1" 2>/dev/null || { echo "${0##*/}: process $1 has ended before it was ready (${*:2})" >&2; return 1; }
        ! "${@:2}" >/dev/null 2>&1 || return 0
    done
    echo "${0##*/}: process $1 is not ready after 30 s (${*:2})" >&2
    return 1
}

# Whether a TCP port of this host is listened on.
listening() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# A TCP port that nobody listens on, below those that the kernel chooses.
free_port() {
    local port
    while port=$((20000 + RANDOM % 12000)); do
        listening "$port" || break
    done
    echo "$port"
}

# Starts redis-server on the socket $work/redis, with $pid.
start_redis() {
    redis-server --port 0 --unixsocket "$work/redis" --save '' --dir "$work" >"$work/redis.log" 2>&1 &
    pid=$!
    ready "$pid" [ -S "$work/redis" ] || fail "redis-server does not start: $(tail -1 "$work/redis.log")"
}

# Starts a program that answers lines, with $pid, and reads its first line to $answer. `ask LINE` sends one and reads the next.
# Not a coprocess: its variables are gone as soon as it has ended, and a program that does not start would end the script.
converse() {
    rm -f "$work/ask" "$work/answer"
    mkfifo "$work/ask" "$work/answer"
    "$@" <"$work/ask" >"$work/answer" 8>&- 9<&- &
    pid=$!
    exec 8>"$work/ask" 9<"$work/answer"
    read -r answer <&9
}
ask() {
    echo "$1" >&8
    read -r answer <&9
}

# Milliseconds of user and system time that a command takes, with its children. Its output is dropped.
cpu_ms() {
    local TIMEFORMAT='%3U %3S' spent
    spent=$({ time "$@" >/dev/null 2>"$work/said"; } 2>&1) || { echo "${0##*/}: $* has failed: $(tail -1 "$work/said")" >&2; return 1; }
    awk '{ printf "%.0f\n", ($1 + $2) * 1000 }' <<<"$spent"
}

# Milliseconds of user and system time of a process so far.
cpu_ms_of() { awk -v hz="$(getconf CLK_TCK)" '{ printf "%.0f\n", ($14 + $15) * 1000 / hz }' "/proc/$1/stat"; }

# Bytes as MiB: mib BYTES [DECIMALS, 1 unless given].
mib() { awk -v bytes="$1" -v decimals="${2:-1}" 'BEGIN { printf "%.*f", decimals, bytes / 1048576 }'; }

# The median, the least and the most of the numbers on standard input; `median` has the first of them.
spread() { sort -g | awk '{ all[NR] = $1 } END { print NR ? all[int((NR + 1) / 2)] " " all[1] " " all[NR] : "- - -" }'; }
median() { spread | cut -d' ' -f1; }
