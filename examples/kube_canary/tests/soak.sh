#!/usr/bin/env bash
# Checks that a canary's memory does not grow. In: minutes, and perhaps a binary. Out: a table of its resident memory, the median
# of each minute; exit code 1 if it grew.
#
#   examples/kube_canary/tests/soak.sh [MINUTES] [BINARY]     60 minutes, target/release/kube_canary
#
# Peers come and go all the time: 75 on the loopback interface, in a file that is rewritten every five seconds. Most of them are
# removed for good two seconds later. They are probed by all protocols. The canary is scraped every second, plain and with gzip
# by turns, and /peers and /mesh are read now and then. Memory is read after each gzipped page. A plain page adds some 100 kB
# for a moment, so a median of both kinds would jump between the two. The readings after the first minute count: the median of
# the last two minutes may be at most 2 % above that of the first two. In a run of less than ten minutes it may be 10 % above. A
# page of the program that is needed for the first time is not a leak, and a dozen pages are 2 % of 2.4 MiB. So the short run
# shows that the test works, and the hour shows that nothing grows. Every probe must be accounted for, and each protocol must be
# answered (ICMP and UDP must both be permitted). Needs bash, awk, curl; exit code 77 if curl is missing.
set -euo pipefail

case ${1:-60} in '' | *[!0-9]* | 0 | 1) sed -n '2,/^set -e/ s/^# \{0,1\}//p' "$0" >&2; exit 2 ;; esac
minutes=${1:-60}
command -v curl >/dev/null || { echo "skipped: soak: curl is not installed" >&2; exit 77; }
most=2
[ "$minutes" -ge 10 ] || most=10
here=$(cd "$(dirname "$0")" && pwd)
binary=${2:-$here/../../../target/release/kube_canary}
# The value that the image sets. Without it glibc's thread cache grows by some 2 % in the first ten minutes, and then no
# more.
export GLIBC_TUNABLES=${GLIBC_TUNABLES-glibc.malloc.tcache_count=0}
work=$(mktemp -d)
canary=
trap '[ -z "$canary" ] || kill "$canary" 2>/dev/null || true; rm -rf "$work"' EXIT

# A window of addresses that moves on. An address that leaves it never comes back as the same peer.
peers() {
    awk -v at="$1" 'BEGIN {
        for (i = 0; i < 75; i++) { host = (at * 13 + i) % 2000; printf "127.0.%d.%d node-%d\n", 1 + host / 250, 1 + host % 250, host }
    }' >"$work/peers.new"
    mv "$work/peers.new" "$work/peers"
}
resident() { awk '$1 == "Rss:" { print $2 }' "/proc/$canary/smaps_rollup"; }
median() { sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }
# The page is requested a second time if the first request fails. With more than 64 connections the canary closes the oldest, and
# after a stop of the machine it gets 150 of its own probes at once.
page() { curl -sSf -m 30 -o "$work/page" "$@"; }
ask() { page "$@" || { sleep 1; page "$@"; } || failed=$((failed + 1)); }

failed=0 at=0
: >"$work/minute"
peers 0
# A free port below the range from which the kernel chooses ports. If it is in use, the canary ends and another port is
# tried. The canary listens on all addresses, because the peers are addresses of this host.
serves() { curl -s -m 2 -o /dev/null "$url/healthz"; }
for try in 1 2 3 4 5; do
    port=$((20000 + RANDOM % 10000))
    url=http://127.0.0.1:$port
    ! serves || continue
    "$binary" --series all --peers-file "$work/peers" --grace 2s --protocol icmp,udp,tcp,http --listen "0.0.0.0:$port" --peer-port "$port" \
        --udp-port $((port + 1)) &
    canary=$!
    for wait in {1..300}; do
        ! kill -0 "$canary" 2>/dev/null || ! serves || break 2
        kill -0 "$canary" 2>/dev/null || break
        sleep 0.1
    done
    kill "$canary" 2>/dev/null || true
    canary=
done
[ -n "$canary" ] || { echo "no canary serves its page: tried 5 ports, 30 s each; the last was $port" >&2; exit 1; }
begun=$(date +%s)

echo "| minute | RSS kB | descriptors |"
echo "|--:|--:|--:|"
shown=0
while now=$(($(date +%s) - begun)) && [ $now -lt $((minutes * 60)) ]; do
    at=$((at + 1))
    [ $((at % 5)) -ne 0 ] || peers $at
    if [ $((at % 2)) -eq 0 ]; then
        ask --compressed "$url/metrics"
        resident >>"$work/minute"
    else
        ask "$url/metrics"
    fi
    [ $((at % 30)) -ne 7 ] || ask "$url/peers"
    [ $((at % 60)) -ne 11 ] || ask --compressed "$url/mesh"
    if [ $((now / 60)) -gt $shown ]; then
        shown=$((now / 60))
        echo "| $shown | $(median <"$work/minute") | $(ls "/proc/$canary/fd" | wc -l) |"
        # The first minute belongs to the start.
        [ $shown -eq 1 ] || cat "$work/minute" >>"$work/resident"
        : >"$work/minute"
    fi
    sleep 1
done

cat "$work/minute" >>"$work/resident"
# Two minutes at each end, or half of a short run each.
window=$(($(wc -l <"$work/resident") / 2))
[ $window -le 60 ] || window=60
first=$(head -n $window "$work/resident" | median) last=$(tail -n $window "$work/resident" | median)
ask "$url/metrics"
awk '/^kube_canary_probes_sent_total/ { sent += $NF } /^kube_canary_(replies_total|lost_total|in_flight)/ { told += $NF }
    /^kube_canary_replies_total/ { match($0, /proto="[a-z]*"/); replies[substr($0, RSTART + 7, RLENGTH - 8)] += $NF }
    END {
        if (sent != told || sent == 0) { print "sent " sent " and accounted for " told; bad = 1 }
        split("icmp udp tcp http", protocols)
        for (i in protocols) if (!replies[protocols[i]]) { print "no reply by " protocols[i] ": it was not tested"; bad = 1 }
        exit bad
    }' "$work/page"
awk -v first="$first" -v last="$last" -v failed="$failed" -v rounds=$at -v most=$most 'BEGIN {
    printf "RSS %d kB after a minute, %d kB at the end: %+.2f %%; %d of %d scrapes failed\n", first, last, 100 * (last / first - 1), failed, rounds
    if (last > first * (1 + most / 100)) { print "wanted at most " most " % more"; exit 1 }
    exit (failed > 0)
}'
