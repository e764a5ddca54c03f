#!/usr/bin/env bash
# What a canary costs on a node of 2 and of 40 cores. In: a static binary. Out: a table in Markdown with a line for each number of
# processors. The numbers are from virtual machines that really have this many processors.
#
#   KERNEL=path examples/kube_canary/tests/cores.sh BINARY [CPUS...]     2 and 40
#
# The canary probes eight peers on the guest's loopback interface each second, with the flags of the manifests. It is measured
# after 30 s, and again after 400 scrapes with gzip, each over a separate connection. Memory is in kB from smaps_rollup, which is
# exact: the VmRSS of a kernel with 40 processors may be off by a megabyte. examples/vm/boot.sh describes what it needs, TIMEOUT
# and ACCEL. Exit code 77 if something is missing. With emulated processors it takes minutes.
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
# The value that the image sets.
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
# The first bytes of a page show whether it is gzipped.
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
