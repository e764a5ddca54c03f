# puma with 16 threads, Ruby.
prepare() { command -v puma >/dev/null || apt-get install -y puma; }
serve() {
    env "${environment[@]}" puma --bind "tcp://127.0.0.1:$port" --threads 16:16 --quiet "${flags[@]}" "$here/config.ru" &
    pid=$!
    ready "$pid" listening "$port"
}
burst() { load /request "$1" 16 300 1000 8000; }
remedies() {
    cat <<'LIST'
give-back now give_back
arena-max-2 start MALLOC_ARENA_MAX=2
preload-jemalloc start LD_PRELOAD=libjemalloc.so.2
LIST
}
