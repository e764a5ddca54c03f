#!/usr/bin/env bash
# Boots a small virtual machine, runs one command in it, and ends with that command's exit code. For what a host cannot
# show: more processors than it has, or control groups of version 2 where it mounts version 1.
#
#   examples/vm/boot.sh CPUS MEMORY PAYLOAD COMMAND...
#
#   CPUS     virtual processors: 40
#   MEMORY   as QEMU takes it: 1G. The payload lies in it as well.
#   PAYLOAD  a folder that becomes /payload, where the command starts. Libraries that its programs need are added.
#   COMMAND  handed to the guest's `sh -c`. What it writes to standard output comes out here as it is; what it writes to
#            standard error lies in the console's log, which is shown if the command fails.
#
# The guest is root, has /proc, /sys, /dev, /tmp (memory), a loopback interface, control groups of version 2 with the
# controllers cpu, cpuset and memory, and the commands of busybox; no network and no disk.
#
#   ARCH=aarch64   the guest's processor: x86_64 or aarch64; else this machine's
#   ROOT=folder    the guest's root, such as an unpacked Debian of that processor; it needs a static /bin/busybox. Else busybox and
#                  the libraries of this machine that the payload needs
#   KERNEL=path    the kernel to boot; else the newest /boot/vmlinuz-* that can be read
#   TIMEOUT=600    seconds until the machine is switched off (exit code 124)
#   ACCEL=tcg,thread=single  `kvm` where it works; where it is only half there (a machine within a machine) guests hang.
#                  With a thread for each processor (tcg alone) a guest was seen to crash on a busy host.
#
# Installs nothing. On Debian it needs the packages qemu-system-x86 or qemu-system-arm, busybox-static and a kernel, which is best a small
# one that is only unpacked:
#   apt-get download linux-image-VERSION-cloud-amd64 && dpkg -x linux-image-*.deb kernel  # KERNEL=kernel/boot/vmlinuz-*
# Exit code 77 where one of them is missing. Emulated processors (tcg) are many times slower, and 40 of them take half a
# minute to start.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"

[ $# -ge 4 ] || { sed -n '2,/^set -e/ s/^# \{0,1\}//p' "$0" >&2; exit 2; }
cpus=$1 memory=$2 payload=$3
shift 3

skip() { echo "skipped: $*" >&2; exit 77; }
busybox=$(command -v busybox) || skip "busybox is not installed (apt-get install busybox-static)"
"$busybox" --list | grep -x cpio >/dev/null || skip "this busybox has no cpio (apt-get install busybox-static)"
arch=${ARCH:-$(uname -m)}
# The machine, the line of its console, and the line that carries what the command writes.
case $arch in
x86_64) package=x86 machine=(-machine pc) cpu=max lines=(ttyS0 ttyS1) more=no_timer_check ;;
# The processor's own way to sign pointers is emulated so slowly that the machine takes minutes to start.
aarch64) package=arm machine=(-machine virt,gic-version=3) cpu=max,pauth-impdef=on lines=(ttyAMA0 ttyS0) more='' ;;
*) fail "ARCH: wanted x86_64 or aarch64, found $arch" ;;
esac
command -v "qemu-system-$arch" >/dev/null || skip "qemu is not installed (apt-get install qemu-system-$package)"
newest() { ls -t /boot/vmlinuz-* 2>/dev/null | head -n 1; }
kernel=${KERNEL:-$(newest)}
[ -r "$kernel" ] || skip "no kernel to boot: wanted \$KERNEL or /boot/vmlinuz-*, found '$kernel'"

system=$work/root
if [ -n "${ROOT:-}" ]; then
    cp -a "$ROOT" "$system"
    [ -x "$system/bin/busybox" ] || fail "ROOT: wanted $ROOT/bin/busybox, a static one (package busybox-static)"
    mkdir -p "$system"/{proc,sys,dev,tmp,etc}
else
    mkdir -p "$system"/{bin,proc,sys,dev,tmp,etc,lib64}
    cp -L "$busybox" "$system/bin/busybox"
fi
cp -RL "$payload" "$system/payload"
# The files that the loader would find on this host, at the same paths in the guest.
libraries() {
    find "$system/payload" -type f -perm -100 -exec ldd {} \; 2>/dev/null |
        sed -n 's,^[^/]*\(/[^ :]*\) (0x.*,\1,p' | sort -u
}
[ -n "${ROOT:-}" ] || libraries | while read -r library; do
    mkdir -p "$system$(dirname "$library")"
    cp -L "$library" "$system$library"
done
printf '%s\n' "$*" >"$system/command"
cat >"$system/init" <<INIT
#!/bin/busybox sh
line=${lines[1]}
INIT
cat >>"$system/init" <<'INIT'
# Programs that are in the root already are not replaced.
/bin/busybox mkdir -p /busybox
/bin/busybox --install -s /busybox
export PATH=/usr/bin:/bin:/usr/sbin:/sbin:/busybox HOME=/tmp
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t cgroup2 cgroup /sys/fs/cgroup
for controller in cpu cpuset memory; do echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control; done
ip link set lo up
# The second serial line carries bytes unchanged, and no messages of the kernel.
stty -F /dev/$line raw -echo
cd /payload
sh -c "$(cat /command)" >/dev/$line
echo "guest: the command ended with $?"
# Waits until the line has sent everything.
stty -F /dev/$line cooked
sync
reboot -f
INIT
chmod +x "$system/init"
(cd "$system" && find . | "$busybox" cpio -o -H newc 2>/dev/null | gzip -1) >"$work/initramfs"

status=0
# no_timer_check: on a busy host the kernel would find that its emulated timer does not tick, and give up.
second=(-serial stdio)
[ "$arch" = x86_64 ] || second=(-chardev stdio,id=second -device pci-serial,chardev=second)
timeout "${TIMEOUT:-600}" "qemu-system-$arch" "${machine[@]}" -accel "${ACCEL:-tcg,thread=single}" -cpu "$cpu" -smp "$cpus" -m "$memory" \
    -kernel "$kernel" -initrd "$work/initramfs" \
    -append "console=${lines[0]} quiet panic=-1 random.trust_cpu=on $more" \
    -display none -monitor none -nic none -no-reboot \
    -serial "file:$work/console" "${second[@]}" </dev/null 2>"$work/qemu" || status=$?
code=$(sed -n 's/\r//; s/.*guest: the command ended with \([0-9]*\).*/\1/p' "$work/console" | tail -n 1)
if [ "${code:-1}" != 0 ]; then
    [ "$status" != 124 ] || { code=124; echo "switched off after ${TIMEOUT:-600} seconds" >&2; }
    cat "$work/console" "$work/qemu" >&2
fi
exit "${code:-1}"
