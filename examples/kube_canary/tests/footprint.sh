#!/usr/bin/env bash
# What a canary costs. In: a binary, and perhaps for how long and with how many peers. Out: a table in Markdown, a line for
# each number of peers.
#
#   examples/kube_canary/tests/footprint.sh BINARY [SECONDS] [PEERS...]     60 seconds, and 8, 100 and 1000 peers
#
# The peers are addresses of the loopback interface, probed by ICMP each second, so that network, kernel and answers are
# real and all loss is the canary's own or this host's. Needs bash, awk, curl.
#
#   RSS, anon, PSS  kB after SECONDS, before the first scrape: anonymous memory is what cannot be read again from a file
#   CPU             of one core, without the first 10 s, as the scheduler counted it (/proc/PID/schedstat)
#   wakes           a second: how often it went to sleep of its own will
#   scrape          median of 400 with gzip over one connection, ms, and what one costs in CPU; then RSS and anon again
#   lost, drops     of the probes that were sent; packets that the kernel dropped at the canary's sockets
set -euo pipefail

[ $# -ge 1 ] || { sed -n '2,/^set -e/ s/^# \{0,1\}//p' "$0" >&2; exit 2; }
binary=$1 seconds=${2:-60}
shift $(($# > 1 ? 2 : 1))
[ $# -gt 0 ] || set -- 8 100 1000
# A tenth as long for whoever is in a hurry; what happens at the start is never counted.
settle=$((seconds > 20 ? 10 : seconds / 2))
scrapes=400

# As the image sets it.
export GLIBC_TUNABLES=${GLIBC_TUNABLES-glibc.malloc.tcache_count=0}
work=$(mktemp -d)
canary=
trap '[ -z "$canary" ] || kill "$canary" 2>/dev/null || true; rm -rf "$work"' EXIT

status() { awk -v key="$1:" '$1 == key { print $2 }' "/proc/$canary/status"; }
# Exact, which VmRSS of status is not.
memory() { awk -v key="$1:" '$1 == key { print $2 }' "/proc/$canary/smaps_rollup"; }
ran() { awk '{ print $1 }' "/proc/$canary/schedstat"; }
median() { sort -n | awk '{ all[NR] = $1 } END { print NR ? all[int((NR + 1) / 2)] * 1000 : "none" }'; }
# The sum of a metric over all of its series.
sum() { awk -v name="kube_canary_$1" 'index($1, name) == 1 && $1 !~ /_bucket/ { all += $NF } END { print all + 0 }' "$work/page"; }

echo "| peers | RSS kB | anon kB | PSS kB | threads | CPU % | wakes/s | scrape ms | CPU ms/scrape | RSS after | anon after | sent | lost | drops |"
echo "|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
for peers; do
    awk -v n="$peers" 'BEGIN { for (i = 1; i <= n; i++) printf "127.0.%d.%d node-%d\n", 1 + i / 250, 1 + i % 250, i }' >"$work/peers"
    # A port that is free now: one of those that the kernel gives to nobody by itself.
    port=$((20000 + RANDOM % 10000))
    "$binary" --peers-file "$work/peers" --protocol icmp --listen "127.0.0.1:$port" --udp-port $((port + 1)) &
    canary=$!
    sleep "$settle"
    kill -0 "$canary"
    ran_before=$(ran) slept_before=$(status voluntary_ctxt_switches) begun=$(date +%s%N)
    sleep $((seconds - settle))
    ran=$(($(ran) - ran_before)) slept=$(($(status voluntary_ctxt_switches) - slept_before)) took=$(($(date +%s%N) - begun))
    idle="$(memory Rss) | $(memory Anonymous) | $(memory Pss) | $(status Threads)"
    cpu=$(awk -v ran="$ran" -v took="$took" 'BEGIN { printf "%.3f", 100 * ran / took }')
    wakes=$(awk -v slept="$slept" -v took="$took" 'BEGIN { printf "%.1f", slept * 1e9 / took }')
    ran_before=$(ran)
    # What follows `#` is not sent: it makes curl ask so many times, over one connection.
    scrape=$(curl -sSf --compressed -o /dev/null -w '%{time_total}\n' "http://127.0.0.1:$port/metrics#[1-$scrapes]" | median)
    each=$(awk -v ran=$(($(ran) - ran_before)) -v n=$scrapes 'BEGIN { printf "%.2f", ran / n / 1e6 }')
    after="$(memory Rss) | $(memory Anonymous)"
    curl -sSf "http://127.0.0.1:$port/metrics" >"$work/page"
    echo "| $peers | $idle | $cpu | $wakes | $scrape | $each | $after | $(sum probes_sent_total) | $(sum lost_total) | $(sum socket_dropped_packets_total) |"
    kill "$canary"
    wait "$canary" || true
    canary=
done
