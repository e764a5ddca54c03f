#!/usr/bin/env bash
# What a canary costs on a node of 2 and of 40 cores. In: a static binary. Out: a table in Markdown, a line for each number of
# processors, from virtual machines that really have so many.
#
#   KERNEL=path examples/kube_canary/tests/cores.sh BINARY [CPUS...]     2 and 40
#
# Eight peers on the guest's loopback interface each second, with the flags of the manifests; after 30 s, and again after 400
# scrapes with gzip, each over a connection of its own. Memory in kB as smaps_rollup counts it, which is exact: the VmRSS of a
# kernel with 40 processors may be off by a megabyte. What it needs, and what TIMEOUT and ACCEL are, says examples/vm/boot.sh; exit
# code 77 where that is missing. Emulated processors take minutes.
set -euo pipefail

[ $# -ge 1 ] || { sed -n '2,/^set -e/ s/^# \{0,1\}//p' "$0" >&2; exit 2; }
binary=$1
shift
[ $# -gt 0 ] || set -- 2 40
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$binary" "$work/kube_canary"
for last in 1 2 3 4 5 6 7 8; do echo "127.0.1.$last node-$last"; done >"$work/peers"
cat >"$work/measure" <<'GUEST'
memory() {
    awk '{ kb[$1] = $2 } END { printf "%d | %d | ", kb["Rss:"], kb["Anonymous:"] }' /proc/$canary/smaps_rollup
    awk '$1 == "Threads:" { printf "%d | ", $2 }' /proc/$canary/status
}
# As the image sets it.
export GLIBC_TUNABLES=glibc.malloc.tcache_count=0
./kube_canary --peers-file peers --protocol icmp,udp --peers-max 32 --listen 127.0.0.1:9427 >&2 &
canary=$!
sleep 30
printf '| %d | ' "$(grep -c ^processor /proc/cpuinfo)"
memory
scrape=0 failed=0
while [ $scrape -lt 400 ]; do
    wget -q -O /tmp/page --header 'Accept-Encoding: gzip' http://127.0.0.1:9427/metrics || failed=$((failed + 1))
    scrape=$((scrape + 1))
done
memory
# A page that is gzipped says so in its first bytes.
gzip -dc /tmp/page >/tmp/text || failed=$((failed + 1))
awk -v failed=$failed '/^kube_canary_replies_total/ { replies += $NF } /^kube_canary_lost_total/ { lost += $NF }
    END { printf "%d | %d | %d |\n", replies, lost, failed; exit failed || !replies }' /tmp/text
ended=$?
kill $canary
exit $ended
GUEST
echo "| cores | RSS | anon | threads | RSS after 400 scrapes | anon | threads | replies | lost | scrapes failed |"
echo "|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
for cpus; do
    TIMEOUT=${TIMEOUT:-900} "$here/../../vm/boot.sh" "$cpus" 2G "$work" 'sh ./measure'
done
