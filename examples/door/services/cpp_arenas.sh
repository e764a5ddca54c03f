# A C++ service with a thread for each connection, and so with all of glibc's arenas.
prepare() {
    command -v g++ >/dev/null || apt-get install -y g++
    g++ -O2 -g -pthread -o "$built/arenas" "$here/arenas.cpp"
}
serve() {
    env "${environment[@]}" "$built/arenas" "$port" "${flags[@]}" &
    pid=$!
    ready "$pid" listening "$port"
}
burst() { load /request "$1" 64 2500 500 12000 fresh; }
remedies() {
    cat <<'LIST'
give-back now give_back
arena-max-2 start MALLOC_ARENA_MAX=2
arena-max-1 start MALLOC_ARENA_MAX=1
trim-threshold start MALLOC_TRIM_THRESHOLD_=131072
mmap-threshold start MALLOC_MMAP_THRESHOLD_=65536
trim-by-itself code trim
top-pad-0 start MALLOC_TOP_PAD_=0
preload-jemalloc start LD_PRELOAD=libjemalloc.so.2
tcache-off start GLIBC_TUNABLES=glibc.malloc.tcache_count=0
LIST
}
