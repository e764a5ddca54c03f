#!/usr/bin/env bash
# What a link for an old glibc needs: its start files and, for each library, a stub with the symbols that it had. Zig carries these
# for every release of glibc; only its linker does not take `-z initfirst`, which the preloads use. So Zig gives the stubs, and
# dist/cc links with them.
#
#   dist/stubs.sh ARCH GLIBC FOLDER      dist/stubs.sh x86_64 2.28 target/dist/stubs
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
arch=$1 glibc=$2 folder=$3
zig=${ZIG:-zig}
rm -rf "$folder"
mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export ZIG_GLOBAL_CACHE_DIR=$work/cache ZIG_LOCAL_CACHE_DIR=$work/cache
echo 'int main(void) { return 0; }' >"$work/empty.c"
$zig cc -g0 -target "$arch-linux-gnu.$glibc" -pie "$work/empty.c" -o "$work/pie"
$zig cc -g0 -target "$arch-linux-gnu.$glibc" -no-pie "$work/empty.c" -o "$work/no-pie"
find "$work/cache/o" \( -name '*.so.*' -o -name '*crt1.o' -o -name libc_nonshared.a \) -exec cp {} "$folder/" \;
cd "$folder"
loader=ld-linux-x86-64.so.2
[ "$arch" = x86_64 ] || loader=ld-linux-$arch.so.1
mv libld.so.* "$loader"
echo "GROUP ( libc.so.6 libc_nonshared.a AS_NEEDED ( $loader ) )" >libc.so
for library in m dl pthread rt util resolv; do
    ln -s "$(basename lib$library.so.*)" "lib$library.so"
done
# What an old glibc has not, from ours. The static unwinder of the compiler here may ask for `_dl_find_object`.
cc=$arch-linux-gnu
"$cc-gcc" -O2 -fPIC -Wall -ffile-prefix-map="$here=/dist" -c "$here/old_glibc.c" -o old_glibc.o
"$cc-ar" rDs libc_nonshared.a old_glibc.o
"$cc-objcopy" --enable-deterministic-archives --redefine-sym _dl_find_object=allocanary_find_object \
    "$("$cc-gcc" -print-file-name=libgcc_eh.a)" libgcc_eh.a
# Their debug information has the folder of this clone, and it would enter the build ID of each file that is linked with them.
"$cc-strip" --strip-debug --enable-deterministic-archives Scrt1.o crt1.o libc_nonshared.a ./*.so.*
for wanted in Scrt1.o crt1.o libc.so.6 libc_nonshared.a libm.so; do
    [ -e "$wanted" ] || { echo "stubs.sh: wanted $wanted from $zig, found $(ls)"; exit 1; }
done
