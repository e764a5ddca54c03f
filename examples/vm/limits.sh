#!/usr/bin/env bash
# `allocanary run --memory-limit --cpu-limit` under control groups of version 2, on a virtual machine: for a host that mounts version 1.
# Prints a line for each thing that must hold, and fails at the first one that does not.
#
#   examples/vm/limits.sh
#
# Installs nothing. It needs what `examples/vm/boot.sh` needs; that script names what is missing and ends with exit code 77. With QEMU 7.2
# and Linux 6.1, in two minutes:
#
#   holds: 4 runs in the root group have memory.max 268435456 and cpu.max '50000 100000'
#   holds: half a processor: 5014 ms for 2568 ms of a processor
#   holds: 4 runs in a group of a service have memory.max 268435456 and cpu.max '50000 100000'
#   holds: a kill for memory is a row: "error":{"kind":"out_of_memory","text":"killed by the kernel for memory: it needs [...]
#   holds: no group is left behind
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
cd "$root"
build
for program in allocanary {cell,preload}-{system,jemalloc}; do
    # Without the lines for debuggers, which would only use the guest's memory.
    strip "target/release/$program" -o "$work/$program" 2>/dev/null || cp "target/release/$program" "$work"
done
# busybox is static: a program that is preloaded needs a shell of this host.
cp -L "$(command -v sh)" "$work/shell"
cat >"$work/limits.sh" <<'GUEST'
set -eu
cd /payload
root=/sys/fs/cgroup
holds() { echo "holds: $1"; }
fails() { echo "does not hold: $*"; exit 1; }

# The shell prints the group above its own, and the limits that it has.
limits='IFS=: read -r x y group </proc/self/cgroup; read -r memory </sys/fs/cgroup$group/memory.max
    read -r cpu </sys/fs/cgroup$group/cpu.max; echo "${group%/*} $memory $cpu"
    i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done'
# limited ROWS PLACE ABOVE: runs the program, and compares what it printed. ABOVE is the group above; empty means the root.
limited() {
    ./allocanary run --repeats 2 --run-timeout 10m --candidates own jemalloc --memory-limit 256MiB --cpu-limit 0.5 --out-dir "$1" \
        -- ./shell -c "$limits" >"$1.out" 2>&1 || { cat "$1.out"; fails "run --memory-limit --cpu-limit in $2"; }
    for stdout in "$1"/cells/*/stdout; do
        [ "$(cat "$stdout")" = "$3 268435456 50000 100000" ] || fails "the limits in $2: $(cat "$stdout")"
    done
    holds "$(ls "$1"/cells | wc -l) runs in $2 have memory.max 268435456 and cpu.max '50000 100000'"
}
limited /tmp/root "the root group" ""
./allocanary report /tmp/root --format csv >/tmp/csv
# Medians of the candidate `own`: `wall` is in nanoseconds, `cpu` in microseconds.
# A version has commas, so the columns are counted from the end.
milliseconds() { awk -F, -v metric="$1" -v unit="$2" '/,own,/ && $(NF - 8) == metric { print int($(NF - 5) / unit) }' /tmp/csv; }
wall=$(milliseconds wall 1000000)
cpu=$(milliseconds cpu 1000)
[ "$wall" -gt $((cpu * 16 / 10)) ] || fails "half a processor: $wall ms for $cpu ms of a processor"
holds "half a processor: $wall ms for $cpu ms of a processor"

# A group with processes in it, as a service or a container has: the cells' groups are made next to it, below a parent whose
# controllers are still off.
mkdir $root/ours $root/ours/us
(echo 0 >$root/ours/us/cgroup.procs; limited /tmp/nested "a group of a service" /ours)

# The preload makes the shell take more than its group may have.
grow='test -z "$LD_PRELOAD" || { x=a; while :; do x=$x$x; done; }; i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done'
code=0
./allocanary run --repeats 2 --run-timeout 10m --candidates own jemalloc --memory-limit 32MiB --cpu-limit 0.5 --out-dir /tmp/killed \
    -- ./shell -c "$grow" >/tmp/killed.out 2>&1 || code=$?
[ "$code" = 1 ] || { cat /tmp/killed.out; fails "exit code 1 after a kill for memory, found $code"; }
rows=$(wc -l </tmp/killed/samples.jsonl)
killed=$(grep -c '"error":{"kind":"out_of_memory"' /tmp/killed/samples.jsonl || true)
[ "$rows $killed" = "4 2" ] || { cat /tmp/killed/samples.jsonl; fails "4 rows, 2 of them killed for memory: $rows, $killed"; }
holds "a kill for memory is a row: $(grep -o '"error":{[^}]*}' /tmp/killed/samples.jsonl | head -n 1)"

left=$(find $root -name 'allocanary-*' | wc -l)
[ "$left" = 0 ] || fails "no group is left behind: $left"
holds "no group is left behind"
GUEST
examples/vm/boot.sh 2 1500M "$work" "sh limits.sh"
