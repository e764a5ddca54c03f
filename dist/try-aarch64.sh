#!/usr/bin/env bash
# Uses the package for aarch64 in a virtual machine with a Debian for it, by emulation where this machine has another processor. Prints a
# table in Markdown. Runs by hand before a release: a quarter of an hour for each kernel.
#
#   dist/all.sh x86_64 && dist/all.sh aarch64 && dist/try-aarch64.sh [4k] [16k]      # pages of the kernel, default: both
#
# Needs qemu-system-arm, busybox-static and mmdebstrap. Debian has no kernel with pages of 64 KiB. MIRROR=URL: where its packages come from.
set -euo pipefail
cd "$(dirname "$0")/.."
. dist/versions.sh
. dist/systems.sh
. examples/vm/debian.sh
[ $# -gt 0 ] || set -- 4k 16k
tree=$dist/aarch64/tree
[ -x "$tree/bin/allocanary" ] || { echo "try-aarch64.sh: wanted $tree, found none: run dist/all.sh aarch64"; exit 2; }

# A Debian with Python and jemalloc, unpacked and not configured, once.
root=$dist/roots/bookworm-arm64
if [ ! -d "$root" ]; then
    mmdebstrap --quiet --architectures=arm64 --variant=extract --include=busybox-static,python3,libjemalloc2,dash,libc-bin,libgcc-s1 \
        bookworm "$work/root.tar" "$mirror"
    mkdir "$root.new"
    tar -C "$root.new" --exclude='./dev/*' -xf "$work/root.tar"
    mv "$root.new" "$root"
fi

mkdir -p "$work/payload"
cp -a "$tree/bin" "$tree/lib" dist/try-inside.sh "$work/payload/"
cat >"$work/payload/all.sh" <<'GUEST'
export PATH=/payload/bin:$PATH LC_ALL=C.UTF-8
mkdir /tmp/work && cd /tmp/work
{
    sh /payload/try-inside.sh
    # A program under jemalloc, and idle threads under a preload.
    kept='import time
kept = [bytes(700) for _ in range(100000)][::5]
print("ready", flush=True)
time.sleep(600)'
    : >ready
    PYTHONMALLOC=malloc LD_PRELOAD=$(ls /usr/lib/aarch64-linux-gnu/libjemalloc.so.2) python3 -c "$kept" >ready &
    while ! grep -q ready ready; do sleep 0.2; done
    said=$(allocanary heap $! 2>&1) && echo "heap-jemalloc yes" ||
        echo "heap-jemalloc no: $(echo "$said" | tr '\n' ' ' | grep -o 'not analysed: [^.;]*' | head -n 1)"
    kill $!
    library=$(allocanary preload system | sed -n 's/^library *//p')
    said=$(ALLOCANARY_PROOF=idle ALLOCANARY_PRELOAD=thread_idle=10ms LD_PRELOAD=$library python3 -c 'import threading, time
threads = [threading.Thread(target=lambda: (bytearray(200000), time.sleep(0.5))) for _ in range(4)]
[one.start() for one in threads]; [one.join() for one in threads]' 2>&1)
    grep -q '"gave_back":[1-9]' idle && echo "thread-idle yes" || echo "thread-idle no: $said $(cut -c 1-150 idle)"
} 2>/dev/null
GUEST

steps="$(sed -n 's/^try \([a-z-]*\) .*/\1/p' dist/try-inside.sh | tr '\n' ' ')heap-jemalloc thread-idle"
echo "| aarch64, pages of | $(sed 's/ *$//; s/ / | /g' <<<"$steps") |"
echo "|---|$(sed 's/[a-z-]* */---|/g' <<<"$steps")"
bad=0
for pages; do
    image=$(arm_kernel "$pages" "$dist/roots")
    ARCH=aarch64 ROOT=$root KERNEL=$image TIMEOUT=${TIMEOUT:-3600} examples/vm/boot.sh 2 3G "$work/payload" 'sh all.sh' >"$work/said" ||
        { echo "try-aarch64.sh: the machine failed"; bad=1; }
    row="| $pages |"
    for step in $steps; do
        answer=$(sed -n "s/^$step //p" "$work/said" | tr -d '\r')
        row+=" ${answer:-nothing} |"
        [[ $answer = yes* ]] || bad=1
    done
    echo "$row"
done
exit "$bad"
