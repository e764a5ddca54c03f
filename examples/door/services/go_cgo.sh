# A Go service whose C code allocates: C's memory is not the collector's.
prepare() {
    command -v go >/dev/null || apt-get install -y golang-go
    (cd "$here/go" && go build -o "$built/go_cgo" .)
}
serve() {
    env "${environment[@]}" "$built/go_cgo" "$port" "${flags[@]}" &
    pid=$!
    ready "$pid" listening "$port"
}
burst() { load /request "$1" 64 2500 500 12000; }
remedies() {
    cat <<'LIST'
give-back now give_back
free-os-memory now curl -s localhost:$port/free
arena-max-2 start MALLOC_ARENA_MAX=2
arena-max-1 start MALLOC_ARENA_MAX=1
trim-threshold start MALLOC_TRIM_THRESHOLD_=131072
mmap-threshold start MALLOC_MMAP_THRESHOLD_=65536
trim-by-itself code trim
gomemlimit start GOMEMLIMIT=64MiB
preload-jemalloc start LD_PRELOAD=libjemalloc.so.2
gogc start GOGC=50
LIST
}
