# Runs in the machine of arm.sh: writes cores of the small heap. Each is a line `core NAME FIGURES`, the packed core in base64, and `end`.
echo /tmp/core >/proc/sys/kernel/core_pattern
echo 0 >/proc/sys/kernel/core_uses_pid
ulimit -c unlimited
one() { # NAME PRELOAD PROGRAM
    rm -f /tmp/core
    echo "core $1 $(LD_PRELOAD=$2 $3 2>/dev/null)"
    gzip -9 </tmp/core | base64
    echo end
}
case $(uname -r) in
*16k)
    one glibc-2.41-16k "" ./heap-of-2.41
    one tcmalloc-2.16-16k /trixie/libtcmalloc_minimal.so.4 ./heap-of-2.41
    ;;
*)
    one glibc-2.36-4k "" ./heap-of
    one static-2.36-4k "" ./heap-of-static
    one jemalloc-5.3.0-4k /lib/libjemalloc.so.2 ./heap-of
    # That of mimalloc 3 has its whole arena, 1 GiB of zeroes.
    one mimalloc-2.0.9-4k /lib/libmimalloc.so.2 ./heap-of
    one musl-1.2.5-4k "" ./heap-of-musl
    ;;
esac
