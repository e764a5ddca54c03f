#!/usr/bin/env bash
# What a canary costs. In: a binary; perhaps a time and numbers of peers. Out: a table in Markdown with a line for each source
# and number of peers.
#
#   examples/kube_canary/tests/footprint.sh BINARY [SECONDS] [PEERS...]     60 seconds, and 8, 100 and 1000 peers
#
# FLAGS are the canary's flags [default: --protocol=icmp; the manifests' are "--protocol=icmp,udp --peers-max=32"]. SOURCE says
# where peers come from [default: "file dns kubernetes"]: a file; a name server as in deploy/base (root, dnsmasq); an API server by
# TLS (python3, openssl). BY is the number of connections that scrape at the same time [default: 1; 8 and 40 are worth a look].
#
# The peers are addresses of the loopback interface, probed each second. So network, kernel and answers are real, and the canary
# or this host causes all loss. Needs bash, awk, curl; as root it also shows the control group's memory.
#
#   anon, RSS       kB after SECONDS, before the first scrape. Anonymous memory cannot be read again from a file
#   working set     of a control group with nothing else in it, and with a binary that nobody has read before: the charged memory
#                   without inactive file pages, as `kubectl top` and evictions count it, with the kernel's memory for sockets
#   CPU             of one core, without the first 10 s, as the scheduler counted it (/proc/PID/schedstat)
#   wakes           per second: how often it went to sleep by itself
#   scrape          median of 400 with gzip over one connection, ms, and the CPU time of one; then memory again
#   lost, drops     lost probes among those that were decided; packets that the kernel dropped at the canary's sockets
set -euo pipefail

[ $# -ge 1 ] || { sed -n '2,/^set -e/ s/^# \{0,1\}//p' "$0" >&2; exit 2; }
binary=$1 seconds=${2:-60}
shift $(($# > 1 ? 2 : 1))
[ $# -gt 0 ] || set -- 8 100 1000
read -ra flags <<<"${FLAGS:---protocol=icmp}"
# The time of the start is not counted: 10 s, or half of a short run.
settle=$((seconds > 20 ? 10 : seconds / 2))
scrapes=400
by=${BY:-1}

# The value that the image sets.
export GLIBC_TUNABLES=${GLIBC_TUNABLES-glibc.malloc.tcache_count=0}
work=$(mktemp -d)
canary= server= group=
end() {
    [ -z "$canary" ] || kill "$canary" 2>/dev/null || true
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    wait 2>/dev/null || true
    [ -z "$group" ] || rmdir "$group" 2>/dev/null || true
    rm -rf "$work"
}
trap end EXIT

# A control group of either version, if this user may make one.
for root in /sys/fs/cgroup/memory /sys/fs/cgroup; do
    mkdir "$root/kube_canary_$$" 2>/dev/null || continue
    group=$root/kube_canary_$$
    [ -f "$group/memory.stat" ] && break
    rmdir "$group"
    group=
done
working_set() {
    local used
    [ -n "$group" ] || { echo -; return; }
    used=$(cat "$group/memory.current" 2>/dev/null || cat "$group/memory.usage_in_bytes")
    awk -v used="$used" '$1 == "inactive_file" && !total { idle = $2 } $1 == "total_inactive_file" { idle = $2; total = 1 }
        END { print int((used - idle) / 1024) }' "$group/memory.stat"
}

status() { awk -v key="$1:" '$1 == key { print $2 }' "/proc/$canary/status"; }
# smaps_rollup is exact; VmRSS of status is not.
memory() { awk -v key="$1:" '$1 == key { print $2 }' "/proc/$canary/smaps_rollup"; }
ran() { awk '{ print $1 }' "/proc/$canary/schedstat"; }
median() { sort -n | awk '{ all[NR] = $1 } END { print NR ? all[int((NR + 1) / 2)] * 1000 : "none" }'; }
# The sum of a metric over all of its series.
sum() { awk -v name="kube_canary_$1" 'index($1, name) == 1 && $1 !~ /_bucket/ { all += $NF } END { print all + 0 }' "$work/page"; }

echo "| source | peers | anon kB | working set kB | RSS kB | threads | CPU % | wakes/s | scrape ms | CPU ms/scrape | anon after | working set after | RSS after | decided | lost | drops |"
echo "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
for source in ${SOURCE:-file dns kubernetes}; do
for peers; do
    awk -v n="$peers" 'BEGIN { for (i = 1; i <= n; i++) printf "127.0.%d.%d node-%d\n", 1 + i / 250, 1 + i % 250, i }' >"$work/peers"
    # A port that is free now, below the range from which the kernel chooses ports.
    port=$((20000 + RANDOM % 10000))
    # A page of a file is charged to the group that reads it first. So this group gets a copy that nobody has read.
    cp "$binary" "$work/kube_canary"
    sync "$work/kube_canary"
    dd of="$work/kube_canary" oflag=nocache conv=notrunc,fdatasync count=0 status=none
    from=("--peers-file=$work/peers") before=()
    if [ "$source" = kubernetes ]; then
        openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=api -addext subjectAltName=IP:127.0.0.1 \
            -addext basicConstraints=critical,CA:FALSE -keyout "$work/key.pem" -out "$work/cert.pem" 2>/dev/null
        python3 "$(dirname "$0")/api.py" "$work" $((port + 2)) "$work/peers" &
        server=$!
        printf '%s\n' "apiVersion: v1" "kind: Config" "current-context: a" \
            "clusters: [{name: a, cluster: {server: 'https://127.0.0.1:$((port + 2))', certificate-authority: $work/cert.pem}}]" \
            "contexts: [{name: a, context: {cluster: a, user: a}}]" "users: [{name: a, user: {token: none}}]" >"$work/kubeconfig"
        before=(env "KUBECONFIG=$work/kubeconfig")
        from=(--kubernetes --kubernetes-namespace=default --probe-self)
        sleep 1
    fi
    if [ "$source" = dns ]; then
        awk '{ print $1, "canaries.test" }' "$work/peers" >"$work/hosts"
        dnsmasq --keep-in-foreground --no-resolv --no-hosts --no-daemon --log-facility=- --listen-address=127.0.0.153 \
            --bind-interfaces --addn-hosts="$work/hosts" >"$work/dnsmasq" 2>&1 &
        server=$!
        echo "nameserver 127.0.0.153" >"$work/resolv.conf"
        # The canary gets a separate /etc/resolv.conf. Own addresses are peers too, because the addresses of loopback
        # are this host's.
        before=(unshare --mount sh -c "mount --bind $work/resolv.conf /etc/resolv.conf && exec \"\$@\"" sh)
        from=(--peers-dns=canaries.test. --probe-self)
    fi
    (
        [ -z "$group" ] || echo "$BASHPID" >"$group/cgroup.procs"
        exec "${before[@]}" "$work/kube_canary" "${from[@]}" "${flags[@]}" --listen "127.0.0.1:$port" --udp-port $((port + 1))
    ) &
    canary=$!
    sleep "$settle"
    kill -0 "$canary"
    ran_before=$(ran) slept_before=$(status voluntary_ctxt_switches) begun=$(date +%s%N)
    sleep $((seconds - settle))
    ran=$(($(ran) - ran_before)) slept=$(($(status voluntary_ctxt_switches) - slept_before)) took=$(($(date +%s%N) - begun))
    idle="$(memory Anonymous) | $(working_set) | $(memory Rss) | $(status Threads)"
    cpu=$(awk -v ran="$ran" -v took="$took" 'BEGIN { printf "%.3f", 100 * ran / took }')
    wakes=$(awk -v slept="$slept" -v took="$took" 'BEGIN { printf "%.1f", slept * 1e9 / took }')
    ran_before=$(ran)
    # curl does not send what follows `#`. It makes curl send this many requests over one connection.
    scrape=$(for _ in $(seq "$by"); do
        curl -sSf --compressed -o /dev/null -w '%{time_total}\n' "http://127.0.0.1:$port/metrics#[1-$((scrapes / by))]" &
    done | median)
    each=$(awk -v ran=$(($(ran) - ran_before)) -v n=$scrapes 'BEGIN { printf "%.2f", ran / n / 1e6 }')
    after="$(memory Anonymous) | $(working_set) | $(memory Rss)"
    curl -sSf "http://127.0.0.1:$port/metrics" >"$work/page"
    echo "| $source | $peers | $idle | $cpu | $wakes | $scrape | $each | $after | $(($(sum replies_total) + $(sum lost_total))) | $(sum lost_total) | $(sum socket_dropped_packets_total) |"
    kill "$canary"
    wait "$canary" || true
    canary=
    [ -z "$server" ] || kill "$server"
    server=
done
done
