#!/usr/bin/env bash
# One unchanged binary under several CPU quotas: its arenas, and its resident memory on `server` with 64 threads.
# Needs root, for the control groups (v1 or v2). Prints a Markdown table.
#
#   examples/by_quota/table.sh [REPEATS]
set -euo pipefail
cd "$(dirname "$0")/../.."
repeats=${1:-10}
cargo build --release --quiet --bins
cargo build --release --quiet --example cell-by-quota
out=$(mktemp -d)
group=allocanary-by-quota-$$
if [ -d /sys/fs/cgroup/cpu ]; then
    folder=/sys/fs/cgroup/cpu/$group
    limit() { echo 100000 >"$folder/cpu.cfs_period_us"; echo "$1" >"$folder/cpu.cfs_quota_us"; }
else
    folder=/sys/fs/cgroup/$group
    limit() { echo "${1/#-1/max} 100000" >"$folder/cpu.max"; }
fi
mkdir "$folder"
trap 'rmdir "$folder"; rm -rf "$out"' EXIT

# Runs in a separate shell, so that only this run is in the group.
under() { sh -c 'echo $$ > "$0/cgroup.procs" && exec "$@"' "$folder" "$@"; }
arenas() { under "$1" describe | grep -o '"narenas":"[0-9]*"' | tr -dc 0-9; }
idle() {
    under target/release/allocanary study --candidates jemalloc --threads 64 --repeats "$repeats" --out-dir "$out/$1-$2" \
        ${3:+--cells "$3"} >/dev/null 2>&1
    target/release/allocanary report "$out/$1-$2" --format csv |
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
    echo "| $name | $(arenas target/release/cell-jemalloc) | $(idle default "$quota" "")" \
        "| $(arenas target/release/examples/cell-by-quota) | $(idle quota "$quota" target/release/examples) |"
done
