#!/usr/bin/env bash
# Checks that a canary reports neither latency nor loss when somebody sets the wall clock, forwards and back. In: a static
# binary.
# Out: what the canary counted; exit code 1 if it counted latency or loss.
#
#   KERNEL=path examples/kube_canary/tests/clock.sh BINARY
#
# It sets the clock of a virtual machine, not that of this host. examples/vm/boot.sh describes what it needs, TIMEOUT and
# ACCEL.
# Exit code 77 if something is missing.
set -euo pipefail

[ $# -eq 1 ] || { sed -n '2,/^set -e/ s/^# \{0,1\}//p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$1" "$work/kube_canary"
for last in 1 2 3 4 5 6 7 8; do echo "127.0.1.$last node-$last"; done >"$work/peers"
cat >"$work/measure" <<'GUEST'
./kube_canary --peers-file peers --protocol icmp,udp --interval 500ms --listen 127.0.0.1:9427 >&2 &
canary=$!
sleep 10
for by in 3600 -7200 5; do
    date -s "@$(($(date +%s) + by))" >&2
    sleep 4
done
wget -q -O /tmp/page http://127.0.0.1:9427/metrics
kill $canary
awk '/^kube_canary_probes_sent_total/ { sent += $NF } /^kube_canary_lost_total/ { lost += $NF } /^kube_canary_late_total/ { late += $NF }
    /^kube_canary_rtt_seconds_bucket.*le="0.1"/ { below += $NF } /^kube_canary_rtt_seconds_count/ { count += $NF }
    /^kube_canary_rtt_seconds_sum/ { sum += $NF } /^kube_canary_clock_steps_total/ { steps = $NF }
    END {
        printf "%d sent, %d lost, %d late, mean %.6f s, %d of %d below 0.1 s, %d steps noticed, of 3\n", sent, lost, late, sum / count, below, count, steps
        exit !(sent > 100 && lost == 0 && late == 0 && below == count && steps == 3)
    }' /tmp/page
GUEST
TIMEOUT=${TIMEOUT:-600} "$here/../../vm/boot.sh" 2 1G "$work" 'sh ./measure'
