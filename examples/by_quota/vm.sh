#!/usr/bin/env bash
# The same unchanged binary as in `table.sh`, under control groups of version 2, on a virtual machine with more processors
# than this host may have. Prints a Markdown table: what jemalloc makes by default, what `per_cpu(1)` makes, and the
# memory of `server` with 64 threads when idle, in MiB, median of REPEATS.
#
#   examples/by_quota/vm.sh [CPUS] [REPEATS]        # 8 and 3 unless given; 0 repeats for the arenas alone
#
# Installs nothing: what it needs is what `examples/vm/boot.sh` needs, which says so and gives exit code 77 where it is
# not there. Measured on emulated processors (QEMU 7.2, Linux 6.12, transparent huge pages `always`):
#
# MEASURED
set -euo pipefail
cd "$(dirname "$0")/../.."
cpus=${1:-8} repeats=${2:-3}
cargo build --release --quiet --bins
cargo build --release --quiet --example cell-by-quota
payload=$(mktemp -d)
trap 'rm -rf "$payload"' EXIT
mkdir "$payload/quota"
for program in allocanary cell-jemalloc examples/cell-by-quota; do
    # Without the lines for debuggers, which would only take the guest's memory.
    strip target/release/$program -o "$payload/${program##*/}" 2>/dev/null || cp target/release/$program "$payload"
done
mv "$payload/cell-by-quota" "$payload/quota/cell-by-quota"
cat >"$payload/table.sh" <<'GUEST'
cd /payload
root=/sys/fs/cgroup
under() { sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$@"; }
arenas() { under "$1" "$2" describe | grep -o '"narenas":"[0-9]*"' | tr -dc 0-9; }
idle() {
    [ "$REPEATS" -gt 0 ] || { echo "-"; return; }
    under "$1" ./allocanary study --candidates jemalloc --threads 64 --repeats "$REPEATS" --out /tmp/out \
        --cells "$2" >/dev/null 2>/tmp/said || cat /tmp/said >&2
    ./allocanary report /tmp/out --format csv | awk -F, '$6 == "rss" { printf "%.1f", $9 / 1048576 }'
    rm -rf /tmp/out
}
row() {
    echo "| $1 | $(arenas "$2" ./cell-jemalloc) | $(idle "$2" .) | $(arenas "$2" quota/cell-by-quota) | $(idle "$2" quota) |"
}
echo "| \`cpu.max\` | arenas by default | MiB when idle | arenas, \`per_cpu(1)\` | MiB when idle |"
echo "|---|--:|--:|--:|--:|"
for max in "50000 100000" "100000 100000" "200000 100000" "250000 100000" "max 100000"; do
    mkdir $root/one
    echo "$max" >$root/one/cpu.max
    row "$max" $root/one
    rmdir $root/one
done
# The parent's quota holds for the child, whatever the child's own file says.
nested() {
    mkdir $root/parent
    echo "+cpu" >$root/parent/cgroup.subtree_control
    mkdir $root/parent/child
    echo "$1" >$root/parent/cpu.max
    echo "$2" >$root/parent/child/cpu.max
    row "$2, below $1" $root/parent/child
    rmdir $root/parent/child $root/parent
}
nested "100000 100000" "max 100000"
nested "100000 100000" "300000 100000"
nested "300000 100000" "200000 100000"
GUEST
TIMEOUT=${TIMEOUT:-1800} examples/vm/boot.sh "$cpus" 2G "$payload" "REPEATS=$repeats sh table.sh"
