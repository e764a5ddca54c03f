# node with Buffers: malloc serves their memory, and it is freed when the collector has found them dead.
prepare() { command -v node >/dev/null || apt-get install -y nodejs; }
serve() {
    env "${environment[@]}" node "${flags[@]}" "$here/node.js" "$port" &
    pid=$!
    ready "$pid" listening "$port"
}
burst() { load /request "$1" 64 2000 1000 12000; }
remedies() {
    cat <<'LIST'
give-back now give_back
arena-max-2 start MALLOC_ARENA_MAX=2
arena-max-1 start MALLOC_ARENA_MAX=1
trim-threshold start MALLOC_TRIM_THRESHOLD_=131072
mmap-threshold start MALLOC_MMAP_THRESHOLD_=65536
preload-jemalloc start LD_PRELOAD=libjemalloc.so.2
old-space start --max-old-space-size=64
semi-space start --max-semi-space-size=1
optimize-for-size start --optimize-for-size
LIST
}
