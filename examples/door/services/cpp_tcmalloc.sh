# The C++ service on tcmalloc of gperftools.
. "$here/services/cpp_arenas.sh"
prepare() {
    [ -e /usr/lib/x86_64-linux-gnu/libtcmalloc.so ] || apt-get install -y g++ libgoogle-perftools-dev
    g++ -O2 -g -pthread -o "$built/arenas_tcmalloc" "$here/arenas.cpp" -Wl,--no-as-needed -ltcmalloc
}
serve() {
    env "${environment[@]}" "$built/arenas_tcmalloc" "$port" "${flags[@]}" &
    pid=$!
    ready "$pid" listening "$port"
}
remedies() {
    cat <<'LIST'
give-back now give_back
release-rate start TCMALLOC_RELEASE_RATE=10
small-caches start TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES=1048576
decommit start TCMALLOC_AGGRESSIVE_DECOMMIT=1
LIST
}
