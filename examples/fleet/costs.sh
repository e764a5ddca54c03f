#!/usr/bin/env bash
# What the agent of a node costs. Usage: [SHORT=PODS] examples/fleet/costs.sh [SECONDS [COUNT...]]
#
# For each COUNT, this script starts COUNT processes of 50 programs, 2 to 7 MiB each, and runs the agent next to them for SECONDS. As root
# it gives each process a separate control group, as a container has one; then there are as many rows as processes. It prints a line for
# each COUNT: the agent's CPU time as a share of one core, the highest resident memory of the agent and its child, how many heaps were
# read, and the time of a scrape.
#
# With SHORT it also starts so many pods of one process meanwhile, evenly over the time. Each lives for 8 s. Afterwards it waits for the next
# count, and shows how many rows are left: one for each process that still lives.
set -eu
# Runs in a separate namespace, so that the agent reads no other process of this machine.
if [ -z "${ALONE:-}" ] && unshare --pid --mount-proc true 2>/dev/null; then
    ALONE=1 exec unshare --pid --fork --kill-child --mount-proc "$0" "$@"
fi
. "$(dirname "$0")/../lib.sh"
needs cc python3 strip
locate
# As in the packages: reading its own 100 MB of symbols would cost the agent 8 MiB.
strip --strip-all -o "$work/allocanary" "$allocanary"
allocanary=$work/allocanary
seconds=${1:-300}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- 50 200 1000
pod=costs/pod0123456789abcdef0123456789abcdef
mounts=
for mount in /sys/fs/cgroup /sys/fs/cgroup/unified /sys/fs/cgroup/memory; do
    if [ -e "$mount/cgroup.procs" ] && mkdir -p "$mount/$pod" 2>/dev/null; then mounts="$mounts $mount"; fi
done
at_end() {
    for mount in $mounts; do
        find "$mount/costs" -depth -type d -exec rmdir {} + 2>/dev/null || true
    done
}

kind=0
while [ $kind -lt 50 ]; do
    cc -O1 -pthread -DKIND=$kind "$here/worker.c" -o "$work/service-$kind"
    kind=$((kind + 1))
done
echo "processes  CPU of a core  in the first minute  in the last half  resident MiB  heaps read  not read  scrape ms  page KiB  rows"
for count in "$@"; do
    number=0
    while [ $number -lt "$count" ]; do
        "$work/service-$((number % 50))" $((2 + number % 6)) $((1 + number % 4)) &
        for mount in $mounts; do
            id=$mount/$pod/$(printf '%064x' $number)
            mkdir -p "$id" && echo $! >"$id/cgroup.procs"
        done
        number=$((number + 1))
    done
    sleep 3
    "$allocanary" node --listen 127.0.0.1:0 2>"$work/said" &
    agent=$!
    sleep 2
    url=$(sed -n 's/.*\(http:[^ ]*\)metrics,.*/\1/p' "$work/said")
    python3 - "$agent" "$url" "$seconds" "$count" "${SHORT:-0}" "$work" $(printf '%s\n' $mounts | sed "s|$|/$pod|") <<'P'
import collections, json, os, subprocess, sys, time, urllib.request
agent, url, seconds, count, short, work = int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]), sys.argv[6]
LIVES, pods = 8, collections.deque()
def start_pod(number):
    child = subprocess.Popen([f"{work}/service-{number % 50}", "2", "1"])
    groups = [f"{pod}/{count + number:064x}" for pod in sys.argv[7:]]
    for group in groups:
        os.mkdir(group)
        with open(f"{group}/cgroup.procs", "w") as file: file.write(str(child.pid))
    pods.append((time.monotonic() + LIVES, child, groups))
def end_pod():
    _, child, groups = pods.popleft()
    child.kill()
    child.wait()
    for group in groups: os.rmdir(group)
tick = os.sysconf("SC_CLK_TCK")
def children(pid):
    try: return [int(one) for one in open(f"/proc/{pid}/task/{pid}/children").read().split()]
    except OSError: return []
def cpu(pid):
    # The CPU time of the agent, of its children that have ended, and of those that have not.
    fields = open(f"/proc/{pid}/stat").read().rsplit(") ", 1)[1].split()
    own = sum(int(field) for field in fields[11:15])
    return own / tick + sum(cpu(child) for child in children(pid))
def resident(pid):
    try: text = open(f"/proc/{pid}/status").read()
    except OSError: return 0
    lines = [line for line in text.splitlines() if line.startswith("VmRSS")]
    return int(lines[0].split()[1]) / 1024 if lines else 0
begun, most, minute, half, started = time.monotonic(), 0, None, None, 0
while (passed := time.monotonic() - begun) < seconds:
    # If a child ends between two readings, its time counts at the end, with its parent.
    most = max(most, resident(agent) + sum(resident(child) for child in children(agent)))
    while started < short * passed / seconds:
        start_pod(started)
        started += 1
    while pods and pods[0][0] <= time.monotonic():
        end_pod()
    if minute is None and passed >= min(60, seconds):
        minute = cpu(agent) / (passed + 2)
    if half is None and passed >= seconds / 2:
        half = (passed, cpu(agent))
    time.sleep(0.05)
total, passed = cpu(agent), time.monotonic() - begun
late = (total - half[1]) / (passed - half[0])
while pods: end_pod()
# The next count, and the time until it is shown.
if short: time.sleep(80)
times = []
for _ in range(20):
    start = time.monotonic()
    page = urllib.request.urlopen(url + "metrics").read()
    times.append((time.monotonic() - start) * 1000)
report = json.load(urllib.request.urlopen(url + "report.json"))
own = report["own"]
unread = sum(row["unread"] for row in report["rows"])
print(f"{count:9}  {100 * total / (passed + 2):11.2f} %  {100 * (minute or 0):17.2f} %  {100 * late:14.2f} %  {most:12.1f}  {own['walks']:10}  {unread:8}  "
      f"{sorted(times)[10]:9.1f}  {len(page) / 1024:8.0f}  {len(report['rows']):4}", flush=True)
P
    # shellcheck disable=SC2046
    end $(jobs -pr)
done
