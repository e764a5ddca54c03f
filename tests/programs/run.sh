#!/usr/bin/env bash
# Do Debian's programs answer under the preloads as without? Runs each file next to this one without a preload, with each of the three
# as it comes and with the settings `tuned,thread_idle=1ms`, and under `allocanary record`, and compares standard output and exit code.
# Not a part of the gate: by hand before a release, some five minutes on two cores.
#
#     cargo build --release --locked --bins && tests/programs/run.sh [--skip-missing] [PROGRAM...]
#     tests/programs/run.sh --install       # the apt-get line of their packages; runs it as root
#
# Prints a line for each program, and exits with 1 where one differs. A cell is one of:
#
#     same     output and exit code are those of the run without
#     output   another output
#     exit N   another exit code; 128 and more are signals
#     late     it had to be ended after 60 seconds
#     unseen   the program itself did not have the preload
#     failed   the run without a preload had not ended in 60 seconds, or did not start
#
# A file PROGRAM.sh defines: `packages`; `program`, which prints the path of the executable that must have the preload; `version`;
# and `run`, which prints what must be the same each time, in an empty folder, and ends with 8 or 9 if what it needs did not start. The
# whole shell of `run` has the preload.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
built=${CARGO_TARGET_DIR:-$here/../../target}/release
seconds=60

# For the files' servers: tries the command until it succeeds, at most ten seconds.
until_it_answers() {
    local tries
    for ((tries = 0; tries < 200; tries++)); do
        "$@" > /dev/null 2>&1 && return
        sleep 0.05
    done
    echo "no answer: $*"
    return 1
}

names() {
    local file name
    for file in "$here"/*.sh; do
        name=$(basename "$file" .sh)
        [ "$name" = run ] || echo "$name"
    done
}

install_packages() {
    local name
    local -a all=()
    for name in $(names); do all+=($(. "$here/$name.sh" && echo "$packages")); done
    mapfile -t all < <(printf '%s\n' "${all[@]}" | sort -u)
    echo "apt-get install -y --no-install-recommends ${all[*]}"
    [ "$(id -u)" != 0 ] || DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${all[@]}"
}

# run_once NAME RESULT WORD...: runs the program in the folder `work`, with the words before it; writes RESULT.out, .err and .code.
run_once() {
    local name=$1 result=$2 group
    shift 2
    rm -rf "$folder/work"
    mkdir "$folder/work"
    (cd "$folder/work" && exec timeout -k 5 "$seconds" env -i HOME="$folder/work" TMPDIR="$folder/work" LC_ALL=C.UTF-8 USER="$(id -un)" \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@" \
        bash -c "$(declare -f until_it_answers); . \"\$1\" && run" "$name" "$here/$name.sh") \
        < /dev/null > "$result.out" 2> "$result.err" &
    group=$!
    wait "$group"
    echo $? > "$result.code"
    # A server that was not stopped. `timeout` has a process group of its own.
    kill -KILL -- "-$group" 2> /dev/null
}

# verdict NAME RESULT SEEN: the cell of a run. SEEN is a command that succeeds if the program had the preload.
verdict() {
    local name=$1 result=$2 code wanted
    shift 2
    code=$(cat "$result.code")
    wanted=$(cat "$folder/$name-without.code")
    if [ "$code" = 124 ] || [ "$code" = 137 ]; then
        echo late
    elif [ "$code" != "$wanted" ]; then
        echo "exit $code"
    elif ! cmp -s "$folder/$name-without.out" "$result.out"; then
        echo output
    elif ! "$@"; then
        echo unseen
    else
        echo same
    fi
}

has_proof() { grep -q "\"exe\":\"$1\"" "$2" 2> /dev/null; }
has_trace() { compgen -G "$2/$(basename "$1")-*.trace" > /dev/null; }

# The cells of a program, one a line: system, jemalloc and mimalloc, each as it comes and with settings; record.
cells() {
    local name=$1 executable=$2 allocator settings result proof traces
    for allocator in system jemalloc mimalloc; do
        for settings in '' tuned,thread_idle=1ms; do
            result=$folder/$name-$allocator${settings:+-idle}
            proof=$result.proof
            : > "$proof" && chmod 666 "$proof"
            run_once "$name" "$result" LD_PRELOAD="$folder/bin/preload-$allocator" ALLOCANARY_PRELOAD="$settings" ALLOCANARY_PROOF="$proof"
            verdict "$name" "$result" has_proof "$executable" "$proof"
        done
    done
    result=$folder/$name-record
    traces=$folder/traces
    rm -rf "$traces"
    if [ -n "${recorded_by_hand-}" ]; then
        mkdir -m 777 "$traces"
        run_once "$name" "$result" LD_PRELOAD="$folder/bin/preload-record" ALLOCANARY_RECORD="$traces" ALLOCANARY_RECORD_MAX=67108864
    else
        run_once "$name" "$result" "$folder/bin/allocanary" record -o "$traces" --max-size 64MiB --
    fi
    verdict "$name" "$result" has_trace "$executable" "$traces"
}

# A line of the table; the last word of it says whether all is well.
line() {
    local name=$1 executable
    unset -v recorded_by_hand
    . "$here/$name.sh"
    executable=$(program 2> /dev/null)
    if [ ! -x "$executable" ]; then
        printf '%-11s not installed: %s\n' "$name" "$packages"
        [ -n "$skip" ]
        return
    fi
    printf '%-11s %-13.13s' "$name" "$(version)"
    run_once "$name" "$folder/$name-without"
    case $(cat "$folder/$name-without.code") in
    8 | 9 | 124 | 137)
        echo ' failed'
        return 1
        ;;
    esac
    local -a all
    mapfile -t all < <(cells "$name" "$executable")
    printf ' %-8s %-8s %-8s %-8s %-8s %-8s %s\n' "${all[@]}"
    [ "$(printf '%s\n' "${all[@]}" | sort -u)" = same ]
}

skip= wanted=()
for word in "$@"; do
    case $word in
    --install)
        install_packages
        exit
        ;;
    --skip-missing) skip=1 ;;
    -*)
        echo "run.sh: wanted --install, --skip-missing or names of programs ($(names | xargs)), found $word" >&2
        exit 2
        ;;
    *)
        [ "$word" != run ] && [ -f "$here/$word.sh" ] || { echo "run.sh: no program $word; there are $(names | xargs)" >&2; exit 2; }
        wanted+=("$word")
        ;;
    esac
done
[ ${#wanted[@]} -gt 0 ] || mapfile -t wanted < <(names)

# Users of services must reach it, and a build meanwhile must not change it.
folder=$(mktemp -d /tmp/programs.XXXXXX) && chmod 755 "$folder" && mkdir "$folder/bin" || exit 2
for file in allocanary preload-system preload-jemalloc preload-mimalloc preload-record preload-prove; do
    if ! cp "$built/$file" "$folder/bin/"; then
        echo "run.sh: no $file in $built: cargo build --release --locked --bins" >&2
        exit 2
    fi
done

printf '%-25s %-17s %-17s %-17s %s\n' '' system jemalloc mimalloc record
printf '%-11s %-13s %-8s %-8s %-8s %-8s %-8s %s\n' program version plain idle plain idle plain idle
differing=()
for name in "${wanted[@]}"; do
    line "$name" || differing+=("$name")
done
rm -rf "$folder/work" "$folder/traces" "$folder/bin"
if [ ${#differing[@]} -gt 0 ]; then
    echo "differ: ${differing[*]}; outputs are in $folder: PROGRAM-without.out and those next to it"
    exit 1
fi
rm -rf "$folder"
