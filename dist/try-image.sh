#!/usr/bin/env bash
# Runs the container image by runc: as its own user, and as root among the host's processes, as `docker run --pid=host --user 0 --cap-add
# SYS_PTRACE` does. Prints what was found; exit code 1 if something is missing.
#
#   sudo dist/try-image.sh
#
# Needs root, umoci, runc, jq, curl and python3.
set -euo pipefail
cd "$(dirname "$0")/.."
. dist/versions.sh
work=$(mktemp -d)
service=
trap 'kill $service 2>/dev/null || true; runc --root "$work/runc" delete --force "allocanary-$$" 2>/dev/null || true; rm -rf --one-file-system "$work"' EXIT
mkdir "$work/layout"
tar -x -C "$work/layout" -f "target/dist/allocanary-$VERSION-x86_64-image.tar"
umoci unpack --image "$work/layout:$VERSION" "$work/bundle"

# In: FILTER of jq over the container's configuration, arguments of the command.
run() {
    local filter=$1
    shift
    jq --argjson args "$(printf '%s\n' /usr/bin/allocanary "$@" | jq -R . | jq -s .)" ".process.terminal = false | .process.args = \$args | $filter" \
        "$work/bundle/config.json" >"$work/bundle/new.json"
    cp "$work/bundle/config.json" "$work/kept.json"
    mv "$work/bundle/new.json" "$work/bundle/config.json"
    runc --root "$work/runc" run --bundle "$work/bundle" "allocanary-$$" </dev/null || { mv "$work/kept.json" "$work/bundle/config.json"; return 1; }
    mv "$work/kept.json" "$work/bundle/config.json"
}
check() { # NAME WORDS: standard input has the words
    local said
    said=$(cat)
    grep -q -- "$2" <<<"$said" || { echo "$1: wanted '$2', found: $said"; exit 1; }
    echo "$1: $(grep -m 1 -- "$2" <<<"$said")"
}
own='.root.readonly = true | .mounts += [{destination: "/tmp", type: "tmpfs", source: "tmpfs", options: ["mode=1777"]}]'
run "$own" --version | check 'as its own user, read-only' "allocanary $VERSION"
run "$own" study --repeats 1 --threads 2 --time-budget 20s --candidates system jemalloc mimalloc --out-dir /tmp/study | check 'a study' 'rows; medians'

python3 -c 'import time; kept = [bytes(700) for _ in range(100000)]; last = kept[-1]; kept = kept[:50000:5]; print("ready", flush=True); time.sleep(300)' >"$work/ready" &
service=$!
until grep -q ready "$work/ready"; do sleep 0.1; done
host='.process.user = {uid: 0, gid: 0} | .linux.namespaces |= map(select(.type != "pid"))
    | .process.capabilities |= map_values(. + ["CAP_SYS_PTRACE"])'
run "$host" heap "$service" | check 'heap of a process of the host' 'resident: '
run "$host" give-back --yes "$service" | check 'give-back' 'given back: [0-9.]* MiB'
kill "$service"
service=

# The agent of a node with the rights that deploy/node/helm gives it, and no others. It is asked in its network.
chart='.root.readonly = true | .process.user = {uid: 0, gid: 0} | .process.noNewPrivileges = true
    | .process.capabilities |= map_values(["CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"])
    | .linux.namespaces |= map(select(.type != "pid"))'
run "$chart" node --listen=[::]:9912 --every=60s --cpu-percent=50 >"$work/agent" 2>&1 &
ask() { nsenter --net="/proc/$(runc --root "$work/runc" state "allocanary-$$" | jq .pid)/ns/net" curl --silent --fail "http://[::1]:9912/$1"; }
for _ in $(seq 100); do
    ask metrics >"$work/metrics" 2>/dev/null && grep -q 'part="live"' "$work/metrics" && break
    sleep 0.5
done
check 'the agent of a node: a heap' 'part="live"' <"$work/metrics"
ask healthz | check 'the agent of a node: health' 'were counted'
