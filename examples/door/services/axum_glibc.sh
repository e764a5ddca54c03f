# A Rust service on axum and tokio, with the default allocator: C's.
feature=
prepare() {
    (cd "$here/axum" && CARGO_TARGET_DIR=$built/axum cargo build --release --locked --quiet ${feature:+--features "$feature"}) &&
        install "$built/axum/release/door_axum" "$built/axum${feature:+-$feature}.bin"
}
serve() {
    env "${environment[@]}" "$built/axum${feature:+-$feature}.bin" "$port" "${flags[@]}" &
    pid=$!
    ready "$pid" listening "$port"
}
burst() { load /request "$1" 64 2500 500 12000; }
remedies() {
    cat <<'LIST'
give-back now give_back
arena-max-2 start MALLOC_ARENA_MAX=2
arena-max-1 start MALLOC_ARENA_MAX=1
trim-threshold start MALLOC_TRIM_THRESHOLD_=131072
mmap-threshold start MALLOC_MMAP_THRESHOLD_=65536
trim-by-itself code trim
preload-jemalloc start LD_PRELOAD=libjemalloc.so.2
fewer-threads start threads=8
LIST
}
