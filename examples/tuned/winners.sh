#!/usr/bin/env bash
# Which settings win, workload by workload, on hosts of 4 and of 40 cores? Runs `allocanary tune` on each, one after the
# other, and prints a Markdown table. The table of docs/lab/tuning.md comes from here:
#
#     cargo build --release --bins && PATH=$PWD/target/release:$PATH examples/tuned/winners.sh OUT [BUDGET]
#
# A search whose answer is in OUT is not run again: the answer is read from OUT/NAME/answer.txt. "load" is the number of tasks that wanted
# to run at the end of a search, including those of the search.
set -eu
. "$(dirname "$0")/../lib.sh"
[ $# -ge 1 ] || fail "wanted a folder for the results, found none"
needs allocanary
out=$1
budget=${2:-2m}
mkdir -p "$out"

# The sentences of an answer on one line. In the file they are broken at the width of a terminal.
sentences() { tr '\n' ' ' <"$1" | tr -s ' '; }
# The part of the answer that an expression captures, or a dash.
part() { sentences "$1" | sed -nE "s/.*$2.*/\\1/p" | grep . || echo -; }

search() {
    name=$1 workload=$2 cores=$3
    folder=$out/$name-$cores
    if [ ! -e "$folder/answer.txt" ]; then
        rm -rf "$folder"
        allocanary tune --workloads "$workload" --emulate-cpus "$cores" --time-budget "$budget" --out-dir "$folder" \
            >"$out/running.txt" 2>"$out/running.log" || { cat "$out/running.log" >&2; return; }
        cut -d' ' -f1 /proc/loadavg >"$folder/load.txt"
        mv "$out/running.txt" "$folder/answer.txt"
    fi
    answer=$folder/answer.txt
    use=$(part "$answer" 'Use ([^ ]+) instead of ')
    if [ "$use" = - ]; then
        kept=$(part "$answer" 'Keep what you have, ([^ ]+):')
        row="keep \`$kept\` | - | - | - | -"
    else
        before=$(part "$answer" ' instead of ([0-9.]+ [KMG]iB), [-+]?[0-9]')
        after=$(part "$answer" ' instead of [^ ]+: resident ([0-9.]+ [KMG]iB) instead')
        saved=$(part "$answer" ' instead of [0-9.]+ [KMG]iB, ([^ ]+ % \[[^]]*\]|[^ ]+ %)')
        saved=$(echo "$saved" | sed -E 's/\[(.*), (.*)\]/[\1 %, \2 %]/')
        cost="$(part "$answer" 'Its throughput: ([-+0-9.]+ %|[0-9.]+x)') | $(part "$answer" 'Its p99: ([-+0-9.]+ %|[0-9.]+x)')"
        row="\`$use\` | $before, $after | $saved | $cost"
    fi
    same=$(part "$answer" 'Without another allocator: ([^ ,]+(,[^ ,]+)*), resident')
    [ "$same" = - ] || same="\`$same\`, $(part "$answer" 'Without another allocator: [^ ]+, resident ([0-9.]+ [KMG]iB)')"
    echo "| \`$workload\` | $cores | $row | $same | $(cat "$folder/load.txt") |"
}

echo '| workload | cores | recommendation | resident before, after | saved | throughput | p99 | without another allocator | load |'
echo '|---|--:|---|--:|--:|--:|--:|---|--:|'
for cores in 40 4; do
    for workload in server storm handoff bleed small wakes blob list sort reserve; do
        search "$workload" "$workload" "$cores"
    done
    # The sizes of its default would need 4 GiB.
    search churn churn:high=256MiB,low=16MiB,chunk=512KiB "$cores"
done
