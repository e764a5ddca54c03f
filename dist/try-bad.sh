#!/usr/bin/env bash
# What an installed allocanary does where something is wrong with the system. Prints a table in Markdown; exit code 1 if an answer does
# not contain what is wanted. Needs what dist/try.sh needs, and musl-gcc.
#
#   sudo dist/try-bad.sh
set -euo pipefail
cd "$(dirname "$0")/.."
. dist/versions.sh
. dist/systems.sh
clean bookworm
root=$work/system
mkdir "$root"
tar -x -C "$root" --exclude='./dev/*' -f "$dist/roots/bookworm.tar"
install_by deb "$root" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
bad=0
# The last line of a command that has the words, which are a pattern of grep.
case_of() { # NAME WORDS SCRIPT
    local said line
    said=$(within "$root" sh -c "cd /tmp; $3" 2>&1) || true
    line=$(grep -E -m 1 -- "$2" <<<"$said" || true)
    [ -n "$line" ] || { bad=1; line="NOT FOUND ($2): $(tail -n 3 <<<"$said" | tr '\n' ' ')"; }
    echo "| $1 | $(sed 's/^ *//; s/|/\\|/g' <<<"$line" | cut -c 1-220) |"
}
echo '| what is wrong | what is said |'
echo '|---|---|'

# A program of musl: its loader, and a program that waits.
echo 'int main(void) { return 0; }' >"$work/musl.c"
musl-gcc -O2 "$work/musl.c" -o "$root/tmp/musl"
cp -L /lib/ld-musl-x86_64.so.1 "$root/lib/"
case_of 'a program of musl, under a preload' 'musl' 'allocanary run --repeats 1 --candidates own jemalloc --out-dir m -- ./musl'

readonly='mount -o bind / /mnt; mount -o remount,ro,bind /mnt; mount -t proc proc /mnt/proc; mount --rbind /dev /mnt/dev; chroot /mnt sh -c'
case_of 'a system that cannot be written to: `heap`' 'live' "$readonly 'python3 -c \"import time; kept = [bytes(700) for _ in range(100000)][::5]; time.sleep(60)\" & sleep 5; allocanary heap \$!; kill \$!'"
case_of 'a system that cannot be written to: `run`' 'Read-only' "$readonly 'cd /; allocanary run --repeats 1 --candidates own --out-dir /out -- true'"
case_of 'no /usr/lib/allocanary: `study`' 'install allocanary again' 'mv /usr/lib/allocanary /usr/lib/gone; allocanary study --repeats 1; mv /usr/lib/gone /usr/lib/allocanary'
case_of 'no /usr/lib/allocanary: `preload`' 'install allocanary again' 'mv /usr/lib/allocanary /usr/lib/gone; allocanary preload jemalloc; mv /usr/lib/gone /usr/lib/allocanary'

# A cell and a preload of another build: the same files with another mark of their build.
other='id=$(/usr/lib/allocanary/cell-system describe </dev/null | sed -n "s/.*\"id\":\"\([0-9a-f]*\)\".*/\1/p"); sed -i.kept "s/$id/0123456789abcdef/g"'
case_of 'a cell of another version' 'of another build' "$other /usr/lib/allocanary/cell-jemalloc; allocanary study --repeats 1 --threads 1 --time-budget 1s --out-dir v; mv /usr/lib/allocanary/cell-jemalloc.kept /usr/lib/allocanary/cell-jemalloc"
case_of 'a preload of another version' 'wanted build' "$other /usr/lib/allocanary/preload-jemalloc; allocanary run --repeats 1 --candidates own jemalloc --out-dir w -- true"

install_by tarball "$root" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
case_of 'two installations in PATH: the first one' '^library +/opt/' 'PATH=/usr/local/bin:/usr/bin:/bin allocanary preload jemalloc'
case_of 'two installations in PATH: the other one' '^library +/usr/lib/allocanary/' 'PATH=/usr/bin:/bin:/usr/local/bin allocanary preload jemalloc'

removal='LD_PRELOAD=/usr/lib/allocanary/preload-jemalloc python3 -c "
import time, os, sys
while not os.path.exists(\"/tmp/go\"): time.sleep(0.1)
print(\"a service that ran goes on:\", sum(len(bytes(700)) for _ in range(1000)))" & sleep 1; dpkg --remove allocanary >/dev/null; touch go; wait'
case_of 'the package is removed while a service has its preload' 'a service that ran goes on: 700000' "$removal"
case_of 'a service that starts afterwards' 'cannot be preloaded' 'LD_PRELOAD=/usr/lib/allocanary/preload-jemalloc python3 -c "print(1)"'
exit "$bad"
