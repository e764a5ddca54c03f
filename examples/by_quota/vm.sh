#!/usr/bin/env bash
# The same unchanged binary as in `table.sh`, under control groups of version 2, on a virtual machine with more processors
# than this host may have. Prints a Markdown table: the arenas that jemalloc makes by default, and with `per_cpu(1)`.
# `table.sh` compares memory; this script does not, because a study takes hours on emulated processors.
#
#   examples/by_quota/vm.sh [CPUS]        # 8 unless given
#
# Installs nothing. It needs what `examples/vm/boot.sh` needs; that script names what is missing and ends with exit code 77. With 8
# processors (QEMU 7.2, Linux 6.12), in a minute or two:
#
#   | `cpu.max` | arenas by default | arenas, `per_cpu(1)` |
#   |---|--:|--:|
#   | 50000 100000 | 32 | 1 |
#   | 100000 100000 | 32 | 1 |
#   | 200000 100000 | 32 | 2 |
#   | 250000 100000 | 32 | 3 |
#   | max 100000 | 32 | 8 |
#   | max 100000, below 100000 100000 | 32 | 1 |
#   | 300000 100000, below 100000 100000 | 32 | 1 |
#   | 200000 100000, below 300000 100000 | 32 | 2 |
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
cd "$root"
cpus=${1:-8}
build --example cell-by-quota
for program in cell-jemalloc examples/cell-by-quota; do
    # Without the lines for debuggers, which would only use the guest's memory.
    strip target/release/$program -o "$work/${program##*/}" 2>/dev/null || cp target/release/$program "$work"
done
cat >"$work/table.sh" <<'GUEST'
cd /payload
root=/sys/fs/cgroup
under() { sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$@"; }
arenas() { under "$1" "$2" describe | grep -o '"narenas":"[0-9]*"' | tr -dc 0-9; }
row() { echo "| $1 | $(arenas "$2" ./cell-jemalloc) | $(arenas "$2" ./cell-by-quota) |"; }
echo "| \`cpu.max\` | arenas by default | arenas, \`per_cpu(1)\` |"
echo "|---|--:|--:|"
for max in "50000 100000" "100000 100000" "200000 100000" "250000 100000" "max 100000"; do
    mkdir $root/one
    echo "$max" >$root/one/cpu.max
    row "$max" $root/one
    rmdir $root/one
done
# The parent's quota limits the child, whatever the child's own file says.
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
examples/vm/boot.sh "$cpus" 1G "$work" "sh table.sh"
