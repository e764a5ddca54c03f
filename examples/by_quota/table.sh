#!/usr/bin/env bash
# One unchanged binary under several CPU quotas: its arenas, and its resident memory on `server` with 64 threads.
# Needs root, for the control groups (v1 or v2). Prints a Markdown table.
#
#   examples/by_quota/table.sh [REPEATS]
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
needs_root "the control groups"
build --example cell-by-quota
locate
repeats=${1:-10}
group=allocanary-by-quota-$$
if [ -d /sys/fs/cgroup/cpu ]; then
    folder=/sys/fs/cgroup/cpu/$group
    limit() { echo 100000 >"$folder/cpu.cfs_period_us"; echo "$1" >"$folder/cpu.cfs_quota_us"; }
else
    folder=/sys/fs/cgroup/$group
    limit() { echo "${1/#-1/max} 100000" >"$folder/cpu.max"; }
fi
mkdir "$folder"
at_end() { rmdir "$folder" || true; }

# Runs in a separate shell, so that only this run is in the group.
under() { sh -c 'echo $$ > "$0/cgroup.procs" && exec "$@"' "$folder" "$@"; }
arenas() { under "$1" describe | grep -o '"narenas":"[0-9]*"' | tr -dc 0-9; }
idle() {
    under "$allocanary" study --candidates jemalloc --threads 64 --repeats "$repeats" --out-dir "$work/$1-$2" \
        ${3:+--cells "$3"} >/dev/null 2>&1
    "$allocanary" report "$work/$1-$2" --format csv |
        awk -F, '$6 == "resident" { printf "%.1f MiB [%.1f, %.1f]", $9 / 2^20, $10 / 2^20, $11 / 2^20 }'
}

echo "| CPU quota | arenas by default | resident when idle | arenas, \`per_cpu(1)\` | resident when idle |"
echo "|---|--:|--:|--:|--:|"
for quota in 50000 100000 200000 -1; do
    limit "$quota"
    case $quota in
        -1) name="none ($(nproc) cores)" ;;
        *) name=$(awk -v quota="$quota" 'BEGIN { print quota / 100000 }') ;;
    esac
    echo "| $name | $(arenas "$bin/cell-jemalloc") | $(idle default "$quota" "")" \
        "| $(arenas "$bin/examples/cell-by-quota") | $(idle quota "$quota" "$bin/examples") |"
done
