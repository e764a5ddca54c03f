# The C++ service on mimalloc.
. "$here/services/cpp_arenas.sh"
prepare() {
    ls /usr/lib/x86_64-linux-gnu/libmimalloc.so.2* >/dev/null 2>&1 || apt-get install -y libmimalloc2.0
    g++ -O2 -g -pthread -o "$built/arenas_mimalloc" "$here/arenas.cpp" -Wl,--no-as-needed /usr/lib/x86_64-linux-gnu/libmimalloc.so.2.?
}
serve() {
    env "${environment[@]}" "$built/arenas_mimalloc" "$port" "${flags[@]}" &
    pid=$!
    ready "$pid" listening "$port"
}
remedies() {
    cat <<'LIST'
give-back now give_back
purge-at-once start MIMALLOC_PURGE_DELAY=0
LIST
}
