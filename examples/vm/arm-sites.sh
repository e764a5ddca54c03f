#!/bin/bash
# The tables of docs/lab/arm.md of recordings, pinned pages, profiles, preloads and the agent. It runs in the machine of arm.sh and on any other
# machine: sites.c knows what each of its functions has allocated, and shares.c what each of its functions pins.
#
#   examples/vm/arm-sites.sh [FOLDER of allocanary and its preloads [NAME=SITES[:PRELOAD]...]]
#
# SITES is sites.c, built for this machine; without any it is compiled. SHARES=FILE is shares.c, and RUNS=5 is how many profiles each row has.
# Exits with 1 if a figure is wrong.
set -u
. "$(dirname "$0")/../lib.sh"
needs jq awk
locate "${1:-}"
[ $# -gt 0 ] && shift
if [ $# = 0 ]; then
    needs cc
    SHARES=$work/shares
    { cc -O1 -pthread -o "$work/sites" "$here/sites.c" && cc -O1 -o "$SHARES" "$root/examples/who/shares.c"; } || exit 2
    set -- "glibc=$work/sites"
    jemalloc=$(find /usr/lib -name libjemalloc.so.2 2>/dev/null | head -n 1)
    [ -z "$jemalloc" ] || set -- "$@" "jemalloc of Debian=$work/sites:$jemalloc"
fi
status=0
bad() { echo "wrong: $*" >&2; status=1; }
load=(--ready line:ready --load true --settle 200ms)
name_of() { echo "${1%%=*}"; }
program_of() { local rest=${1#*=}; echo "${rest%%:*}"; }
library_of() { local rest=${1#*=}; [[ $rest != *:* ]] || echo "${rest#*:}"; }

# Starts sites.c with $pid, and waits until it has built: sites PRELOAD NUMBER PROGRAM [VARIABLE=VALUE...]
sites() {
    rm -f "$work/truth"
    env LD_PRELOAD="$1" "${@:4}" "$3" "$2" "$work/truth" >"$work/answer" 2>"$work/said" &
    pid=$!
    ready "$pid" grep -q ready "$work/answer"
}

echo "Linux $(uname -r), $(uname -m)"
echo
echo '| recorded | functions | bytes and blocks equal | child | trace |'
echo '|---|--:|--:|---|---|'
for one; do
    rm -rf "$work/traces"
    LD_PRELOAD=$(library_of "$one") "$allocanary" record -o "$work/traces" "${load[@]}" -- "$(program_of "$one")" 1 "$work/truth" fork \
        >"$work/said" 2>&1 || { bad "record of $one: $(tail -n 3 "$work/said")"; continue; }
    mapfile -t traces < <(ls -S "$work"/traces/*.trace)
    "$allocanary" who "${traces[0]}" --at idle --json >"$work/found" 2>"$work/said" || { bad "who of $one: $(tail -n 3 "$work/said")"; continue; }
    jq -r '.sites[] | "\(.name) \(.requested_bytes) \(.blocks) \(.allocated_total_bytes) \(.allocations)"' "$work/found" >"$work/sites-found"
    equal=$(awk 'NR == FNR { of[$0]; next } $0 in of { equal++ } END { print equal + 0 }' "$work/sites-found" "$work/truth")
    child=$("$allocanary" who "${traces[1]:-none}" --json 2>&1 | jq -r '.sites[] | select(.name == "child") | "\(.blocks) of \(.requested_bytes) bytes"' 2>&1)
    check=$("$allocanary" trace check "${traces[0]}" 2>&1 | head -n 1)
    echo "| $(name_of "$one") | $(wc -l <"$work/truth") | $equal | $child | $check |"
    [ "$equal $child" = "8 500 of 500000 bytes" ] || { bad "record of $one"; diff "$work/truth" "$work/sites-found" >&2; }
done

echo
echo '| pinned by | by the program | by `who` | off |'
echo '|---|--:|--:|--:|'
rm -rf "$work/traces"
if "$allocanary" record -o "$work/traces" --ready line:ready --load 'touch {dir}/go; while [ ! -e {dir}/done ]; do sleep 0.01; done' --settle 200ms \
    -- "$SHARES" '{dir}' 1 "$work/pinned" >"$work/said" 2>&1 && "$allocanary" who "$work"/traces/*.trace --json >"$work/found" 2>"$work/said"; then
    while read -r name bytes; do
        found=$(jq -r --arg name "$name" '.sites[] | select(.name == $name) | .pinned_bytes' "$work/found")
        awk -v name="$name" -v bytes="$bytes" -v found="${found:-0}" 'BEGIN {
            off = (found - bytes) / bytes * 100
            printf "| `%s` | %d | %d | %.2f %% |\n", name, bytes, found, off
            exit off > 0.2 || off < -0.2 }' || bad "pinned by $name"
    done <"$work/pinned"
else
    bad "pinned pages: $(tail -n 3 "$work/said")"
fi

echo
echo '| profile | intervals with the true figure | sum of the estimates / truth | stacks that could not be walked |'
echo '|---|--:|--:|--:|'
for one; do
    [ -z "$(library_of "$one")" ] || continue # the sampler counts what its own allocator gives
    inside=0 all=0 sum=0 truth=0 broken=0
    for _ in $(seq "${RUNS:-5}"); do
        sites "$bin/preload-profile" 16 "$(program_of "$one")" ALLOCANARY_PRELOAD=profile=64KiB || { bad "$one with a profile: $(cat "$work/said")"; continue; }
        "$allocanary" who "$pid" --json >"$work/found" 2>"$work/why" || bad "who of the profile of $one: $(tail -n 3 "$work/why")"
        kill "$pid"
        jq -r '.sites[] | "\(.name) \(.requested_low_bytes) \(.requested_high_bytes) \(.requested_bytes)"' "$work/found" >"$work/sites-found"
        broken=$((broken + $(jq '[.notes[]? | select(test("could not be walked|no stack"))] | length' "$work/found")))
        read -r one_inside one_all one_sum one_truth < <(awk 'NR == FNR { low[$1] = $2; high[$1] = $3; of[$1] = $4; next }
            { truth += $2; sum += of[$1] } $2 > 0 { all++; if (low[$1] <= $2 && $2 <= high[$1]) inside++ }
            END { printf "%d %d %.0f %.0f\n", inside, all, sum, truth }' "$work/sites-found" "$work/truth")
        inside=$((inside + one_inside)) all=$((all + one_all)) sum=$((sum + one_sum)) truth=$((truth + one_truth))
    done
    echo "| $(name_of "$one") | $inside of $all | $(awk -v sum="$sum" -v truth="$truth" 'BEGIN { printf "%.3f", sum / (truth ? truth : 1) }') | $broken |"
    # 95 of 100 are expected.
    [ $((inside * 100)) -ge $((all * 85)) ] && [ "$all" -gt 0 ] || bad "profile of $one"
done

echo
echo '| preload | settings in the proof | figures of the program |'
echo '|---|---|---|'
for one; do
    [ -z "$(library_of "$one")" ] || continue
    library=$("$allocanary" preload system --settings 'arena_max=1,thread_idle=10ms' | sed -n 's/^library *//p')
    "$(program_of "$one")" 1 "$work/alone" >/dev/null & alone=$!
    ready "$alone" [ -s "$work/alone" ]
    kill "$alone"
    rm -f "$work/proof"
    sites "$library" 1 "$(program_of "$one")" ALLOCANARY_PRELOAD=arena_max=1,thread_idle=10ms ALLOCANARY_PROOF="$work/proof" || bad "$one with a preload: $(cat "$work/said")"
    took=$(jq -r 'select(.at == "load") | "\(.version), arena_max=\(.settings.arena_max)"' "$work/proof")
    kill "$pid"
    equal=$(cmp -s "$work/alone" "$work/truth" && echo equal || echo differ)
    echo "| $(name_of "$one") | $took | $equal |"
    [[ $took == *arena_max=1 && $equal = equal ]] || bad "preload of $one: $(cat "$work/proof" "$work/said")"
done

echo
echo '| `run` | program | runs without an error |'
echo '|---|---|--:|'
for one; do
    [ -z "$(library_of "$one")" ] || continue
    rm -rf "$work/ran"
    "$allocanary" run --repeats 2 --candidates own system system:arena_max=1 "${load[@]}" --out-dir "$work/ran" -- "$(program_of "$one")" 1 "$work/truth" \
        >"$work/said" 2>&1 || bad "run of $one: $(tail -n 3 "$work/said")"
    ran=$(jq -s 'map(select(.error == null)) | length' "$work/ran/samples.jsonl")
    echo "| own, system, system:arena_max=1 | $(name_of "$one") | $ran of 6 |"
    [ "$ran" = 6 ] || bad "run of $one"
done

# The agent beside `heap`, where a program can be put into a control group of its own.
groups=/sys/fs/cgroup
[ -w $groups/cgroup.procs ] || { echo "left out: the agent needs control groups of version 2" >&2; exit $status; }
echo
echo '| agent | allocator in its metrics | parts equal to those of `heap` | live bytes | free pages, by `heap` | by the agent |'
echo '|---|---|--:|--:|--:|--:|'
port=9912 pids=() containers=() made=() number=0
at_end() { [ ${#made[@]} = 0 ] || rmdir "${made[@]}" $groups/kubepods 2>/dev/null; }
for one; do
    sites "$(library_of "$one")" 4 "$(program_of "$one")" || { bad "$one: $(cat "$work/said")"; continue; }
    # As a kubelet names it. The agent shows the first twelve digits of a container.
    number=$((number + 1)) container=$(printf '%012x' "$number") group=$groups/kubepods/pod$(printf '%08x-0000-4000-8000-000000000000' "$number")
    group+=/$container$(printf '%052d' 0)
    mkdir -p "$group" && echo "$pid" >"$group/cgroup.procs"
    pids+=("$pid") containers+=("$container") made+=("$group" "${group%/*}")
done
"$allocanary" node --listen 127.0.0.1:$port --cpu-percent 90 --every 2s >"$work/said" 2>&1 & agent=$!
metrics() { wget -q -O "$work/metrics" "http://127.0.0.1:$port/metrics" && [ "$(grep -c '^allocanary_reading_timestamp_seconds{.*pod="0000' "$work/metrics")" -ge "${#pids[@]}" ]; }
ready "$agent" metrics || bad "the agent: $(tail -n 3 "$work/said") $(grep -c . "$work/metrics")"
number=0
for one; do
    reading "${pids[$number]}" | jq -r '[.heaps[].parts_bytes | to_entries[]] | group_by(.key)[] | "\(.[0].key) \(map(.value) | add)"' |
        grep -v '^unknown\| 0$' >"$work/parts" # the metrics have no rows of parts of 0 bytes
    grep "^allocanary_resident_bytes{.*container=\"${containers[$number]}\"" "$work/metrics" >"$work/rows"
    shown() { sed -n "s/.*part=\"$1\"} \([0-9]*\).*/\1/p" "$work/rows"; }
    equal=0 all=0
    while read -r part bytes; do
        [ "$part" != free_pages ] || continue
        all=$((all + 1))
        [ "$(shown "$part")" != "$bytes" ] || equal=$((equal + 1))
    done <"$work/parts"
    # The agent takes from the free pages what is gone by the kernel's count, which Linux before 6.2 keeps for each thread and adds up late.
    free=$(sed -n 's/^free_pages //p' "$work/parts") seen=$(shown free_pages)
    echo "| $(name_of "$one") | $(sed -n '1 s/.*allocator="\([^"]*\)".*/\1/p' "$work/rows") | $equal of $all | $(sed -n 's/^live //p' "$work/parts") | ${free:-0} | ${seen:-0} |"
    [ "$equal" = "$all" ] && [ "$all" -gt 0 ] && [ $((${free:-0} - ${seen:-0})) -ge 0 ] && [ $((${free:-0} - ${seen:-0})) -le $((512 << 10)) ] ||
        { bad "the agent, of $one"; cat "$work/parts" "$work/rows" >&2; }
    number=$((number + 1))
done
end "$agent" "${pids[@]}"
exit $status
