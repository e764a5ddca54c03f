#!/bin/sh
# Starts each canary that the Makefile built, with only this host as its peer. Scrapes it, and prints its resident
# memory. In: names of variants. Out: a table, and 0 if every canary ran, probed and ended without an error.
set -u
cd "$(dirname "$0")" || exit 1
unset MALLOC_CONF JE_MALLOC_CONF _RJEM_MALLOC_CONF GLIBC_TUNABLES MALLOC_ARENA_MAX
failed=0

fail() {
    echo "FAILED: $*" >&2
    failed=1
}

# mib KEY PID: a line of the process's status, in MiB.
mib() {
    awk -v key="$1:" '$1 == key { printf "%.2f", $2 / 1024 }' "/proc/$2/status"
}

# serves: whether the canary answers.
serves() {
    curl -s -m 2 -o /dev/null "http://127.0.0.1:$port/healthz"
}

# start PROGRAM: a canary on a free port outside of the range from which the kernel chooses ports; sets `pid` and `port`. If
# the port is taken the canary ends, and another port is tried.
start() {
    try=0
    while [ $try -lt 5 ]; do
        try=$((try + 1))
        port=$((20000 + ($$ + try * 1009) % 5000 * 2))
        ! serves || continue
        "$1" --listen "127.0.0.1:$port" --udp-port $((port + 1)) --protocol udp --peer 127.0.0.1=self --interval 200ms &
        pid=$!
        waited=0
        while [ $waited -lt 300 ] && kill -0 $pid 2>/dev/null; do
            ! serves || return 0
            waited=$((waited + 1))
            sleep 0.1
        done
        kill $pid 2>/dev/null
        wait $pid
    done
    fail "$1 serves no page: tried 5 ports, the last was $port"
    return 1
}

echo "| allocator | linked  | RSS, MiB | of it anonymous | after 400 scrapes | threads |"
echo "|-----------|---------|---------:|----------------:|------------------:|--------:|"
for variant in "$@"; do
    for linked in "" -static; do
        program=build/$variant/canary$linked
        start "$program" || continue
        sleep 5
        rss=$(mib VmRSS $pid) anonymous=$(mib RssAnon $pid)
        page=$(curl -fsS "http://127.0.0.1:$port/metrics") || fail "$program serves no metrics"
        echo "$page" | grep -q '^kube_canary_replies_total{.*proto="udp".*} [1-9]' || fail "$program has no reply"
        # One connection, four hundred requests.
        curl -fsS --compressed -o /dev/null "http://127.0.0.1:$port/metrics?[1-400]" || fail "$program: scrapes"
        how=dynamic
        [ -n "$linked" ] && how=static
        printf '| %-9s | %-7s | %8s | %15s | %17s | %7s |\n' "$variant" "$how" "$rss" "$anonymous" \
            "$(mib VmRSS $pid)" "$(awk '$1 == "Threads:" { print $2 }' /proc/$pid/status)"
        kill $pid
        wait $pid || fail "$program ended with $?"
    done
done
exit $failed
