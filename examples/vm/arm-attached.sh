# Runs in the machine of arm.sh: arm-attach.sh, and known.sh, which puts a recorder into busy programs and takes it out again, $TIMES times each.
export PATH=/payload/bin:$PATH
ln -s /proc/self/fd /dev/fd # for bash
wrong=0
bash vm/arm-attach.sh /payload "glibc 2.36=/payload/sites" "glibc 2.41=/payload/sites-2.41" "jemalloc 5.3.0=/payload/sites:/lib/libjemalloc.so.2" \
    "mimalloc 2.0.9=/payload/sites:/lib/libmimalloc.so.2" "tcmalloc 2.10=/payload/sites:/lib/libtcmalloc_minimal.so.4" \
    "glibc 2.36, read-only words=/payload/sites-now" || wrong=1
echo
KNOWN= ATTACHED_MS=${MS:-200} bash attach/known.sh /payload "${TIMES:-20}" "c redis python" || wrong=1
exit $wrong
