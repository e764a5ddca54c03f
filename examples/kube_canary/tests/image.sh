#!/usr/bin/env bash
# Runs the image as the manifests run it: as nobody, without rights, read-only, under limits of CPU and memory. In: a
# static binary. Out: a line for each check; exit code 1 if a check fails, 77 if nothing can be run.
#
#   examples/kube_canary/tests/image.sh BINARY
#
# The binary replaces the Dockerfile's first stage, which needs a registry. The README says how to make the binary.
# It needs root, podman with an OCI runtime (runc, or crun), curl and nsenter. Images and containers are in a folder that is
# removed with the test. Containers have a separate network namespace with only a loopback interface.
set -euo pipefail

[ $# -eq 1 ] || { sed -n '2,/^set -e/ s/^# \{0,1\}//p' "$0" >&2; exit 2; }
binary=$(realpath "$1")
deploy=$(cd "$(dirname "$0")/../deploy" && pwd)
skip() { echo "skipped: $*"; exit 77; }
[ "$(id -u)" = 0 ] || skip "needs root"
for tool in podman curl nsenter; do
    command -v "$tool" >/dev/null || skip "needs $tool"
done
if ldd "$binary" 2>/dev/null | grep -q "=>"; then
    echo "image.sh: $binary: wanted a static binary, found a dynamic one: the image has no libraries" >&2
    exit 2
fi

work=$(mktemp -d)
podman() {
    command podman --root "$work/store" --runroot "$work/run" --storage-driver vfs --cgroup-manager cgroupfs --runtime "$runtime" "$@"
}
runtime=runc
trap 'podman rm --all --force --time 0 >/dev/null 2>&1 || true; umount "$work"/store/vfs 2>/dev/null || true; rm -rf "$work"' EXIT

wrong=0
# In: the name of the check, the value found, and the value wanted.
same() {
    if [ "$2" = "$3" ]; then echo "  $1: $2"; else echo "  WRONG: $1: wanted $3, found $2"; wrong=1; fi
}
# In: the name of the check, the minimum, the value found, and the maximum.
between() {
    if [ "$2" -le "$3" ] && [ "$3" -le "$4" ]; then echo "  $1: $3"; else echo "  WRONG: $1: wanted $2 to $4, found $3"; wrong=1; fi
}

# The Dockerfile itself. Its first stage is replaced by a folder with the binary.
mkdir "$work/built"
cp "$binary" "$work/built/kube_canary"
podman build --quiet --file "$deploy/Dockerfile" --build-context build="$work/built" --tag kube_canary "$work/built" >/dev/null
field() { podman image inspect --format "{{.$1}}" kube_canary; }
echo "image: $(field Size) bytes"
same "user" "$(field Config.User)" 65532:65532
same "entry point" "$(field Config.Entrypoint)" "[/kube_canary]"

# What the DaemonSet requests, as podman's flags. (Without the last two, podman requests more than a root without CAP_SYS_RESOURCE
# may have.)
memory=$(sed -n 's/.*limits: {memory: \([0-9]*\)Mi}.*/\1/p' "$deploy/base/daemonset.yaml")
[ -n "$memory" ] || { echo "image.sh: $deploy/base/daemonset.yaml: wanted limits: {memory: NMi}, found none" >&2; exit 2; }
flags=(--detach --network none --read-only --cap-drop ALL --security-opt no-new-privileges --user 65532:65532
    --sysctl "net.ipv4.ping_group_range=0 2147483647" --memory "${memory}m" --memory-swap "${memory}m"
    --ulimit nofile=1024:1024 --ulimit nproc=1024:1024)
peers=()
for last in 1 2 3 4 5 6 7 8; do peers+=(--peer "127.0.1.$last=node-$last"); done
start() { podman run "${flags[@]}" "$@" kube_canary --interval 200ms --protocol icmp "${peers[@]}"; }
# Takes the first runtime that works: crun refuses hosts with both versions of control groups.
for runtime in runc crun none; do
    [ "$runtime" != none ] || skip "no container could be started: $(cat "$work/said")"
    command -v "$runtime" >/dev/null || { echo "$runtime: not installed" >>"$work/said"; continue; }
    if canary=$(start --cpus 0.5 2>>"$work/said"); then break; fi
done

# The sum of a metric over its series.
sum() { awk -v name="$1" '$1 == name || index($1, name "{") == 1 { all += $NF } END { print all + 0 }' "$work/page"; }
# A file of the container's control group. In: its name under version 2, the controller, and its name under version 1.
group() {
    local path
    path=$(sed -n 's/^0:://p' "/proc/$pid/cgroup")
    if [ -f "/sys/fs/cgroup$path/$1" ]; then cat "/sys/fs/cgroup$path/$1"; return; fi
    path=$(sed -n "s/^[0-9]*:[^:]*\\b$2\\b[^:]*://p" "/proc/$pid/cgroup")
    cat "/sys/fs/cgroup/$2$path/$3"
}
status() { awk -v key="$1:" '$1 == key { print $2 }' "/proc/$pid/status"; }

# In: the number of arenas over which a process under this limit of CPU should spread its threads. Examines $canary.
look() {
    local allocator limit arenas=$1
    pid=$(podman inspect --format '{{.State.Pid}}' "$canary")
    for _ in $(seq 50); do
        nsenter --target "$pid" --net curl -sf http://127.0.0.1:9427/readyz >/dev/null && break
        sleep 0.2
    done
    # Many scrapes at once, each over a separate connection: memory is highest then.
    same "scrapes of a crowd that were answered" "$(nsenter --target "$pid" --net curl -sS --compressed --parallel \
        --parallel-max 40 --no-keepalive -o /dev/null --write-out '%{http_code}\n' \
        "http://127.0.0.1:9427/metrics#[1-400]" 2>/dev/null | grep -c '^200$')" 400
    sleep 3
    nsenter --target "$pid" --net curl -sSf http://127.0.0.1:9427/metrics >"$work/page"
    between "probes that were answered" 50 "$(sum kube_canary_replies_total)" 100000
    same "probes that were lost" "$(sum kube_canary_lost_total)" 0
    same "user, capabilities, no new privileges" "$(status Uid) $(status CapEff) $(status NoNewPrivs)" "65532 0000000000000000 1"
    limit=$(group memory.max memory memory.limit_in_bytes)
    same "limit of memory, bytes" "$limit" $((memory << 20))
    # The kernel enforces the limit, so only a value far below it shows that the canary is small.
    between "most memory of the control group, its page cache too" 1 "$(group memory.peak memory memory.max_usage_in_bytes)" \
        $((limit / 2))
    between "resident now, kB" 1 "$(awk '$1 == "Rss:" { print $2 }' "/proc/$pid/smaps_rollup")" $((memory << 10 >> 1))
    allocator=$(sed -n 's/^allocanary_allocator_arenas{allocator="\([a-z]*\)".*/\1/p' "$work/page")
    case $allocator in
    system) between "arenas of glibc in use" 1 "$(sum allocanary_allocator_arenas)" 1 ;;
    jemalloc) same "most arenas of jemalloc" "$(sum allocanary_allocator_arenas_limit)" "$arenas" ;;
    *) echo "  arenas: ${allocator:-this allocator} counts none" ;;
    esac
}

# A container that does not end by itself in two seconds is killed, and returns 137.
end() {
    podman stop --time 2 "$canary" >/dev/null
    same "exit code after SIGTERM, killed for memory" \
        "$(podman inspect --format '{{.State.ExitCode}} {{.State.OOMKilled}}' "$canary")" "0 false"
}

echo "with half a processor and $memory MiB, by $runtime:"
look 1
same "quota of CPU, us in a period of 100 ms" "$(group cpu.max cpu cpu.cfs_quota_us | cut -d' ' -f1)" 50000
end
echo "with $memory MiB and as many processors as there are:"
canary=$(start)
look "$(nproc)"
end

echo "what it says where it may not probe:"
said=$(podman run "${flags[@]/--detach/--rm}" --sysctl "net.ipv4.ping_group_range=1 0" kube_canary --protocol icmp "${peers[@]}" 2>&1) && code=0 || code=$?
same "exit code" "$code" 1
case $said in
*ping_group_range*) echo "  $said" ;;
*) echo "  WRONG: wanted a word of net.ipv4.ping_group_range, found: $said"; wrong=1 ;;
esac
exit $wrong
