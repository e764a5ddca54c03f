# Runs in the machine of arm.sh: known.sh under each allocator of Debian 12, then of Debian 13, arm-sites.sh, and arm-attach.sh.
export PATH=/payload/bin:$PATH STILL=1
ln -s /proc/self/fd /dev/fd # for bash
echo "Linux $(uname -r)"
wrong=0
KNOWN=/payload/known bash heap/known.sh /payload/allocanary "glibc 2.36=/payload/known" \
    "jemalloc 5.3.0 of Debian 12=/lib/libjemalloc.so.2" "mimalloc 2.0.9=/lib/libmimalloc.so.2" \
    "tcmalloc 2.10=/lib/libtcmalloc_minimal.so.4" "musl 1.2.5=/payload/known-musl" || wrong=1
KNOWN=/payload/known-2.41 bash heap/known.sh /payload/allocanary "glibc 2.41=/payload/known-2.41" \
    "jemalloc 5.3.0 of Debian 13=/trixie/libjemalloc.so.2" "mimalloc 3.0.1=/trixie/libmimalloc.so.3" \
    "tcmalloc 2.16=/trixie/libtcmalloc_minimal.so.4" || wrong=1
sites=("glibc 2.36=/payload/sites" "glibc 2.41=/payload/sites-2.41" "jemalloc 5.3.0 of Debian 12=/payload/sites:/lib/libjemalloc.so.2"
    "mimalloc 2.0.9=/payload/sites:/lib/libmimalloc.so.2" "tcmalloc 2.10=/payload/sites:/lib/libtcmalloc_minimal.so.4")
SHARES=/payload/shares bash vm/arm-sites.sh /payload "${sites[@]}" || wrong=1
bash vm/arm-attach.sh /payload "${sites[@]}" || wrong=1
exit $wrong
