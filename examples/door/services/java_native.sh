# Java 17 with 64 threads that compress: zlib's buffers are malloc's.
prepare() {
    command -v javac >/dev/null || apt-get install -y openjdk-17-jdk-headless
    javac -d "$built/java" "$here/Service.java"
}
serve() {
    env "${environment[@]}" java -Xmx256m "${flags[@]}" -cp "$built/java" Service "$port" &
    pid=$!
    ready "$pid" listening "$port"
}
burst() { load /native "$1" 64 1500 1000 6000; }
remedies() {
    cat <<'LIST'
give-back now give_back
jcmd-trim now jcmd $pid System.trim_native_heap
jcmd-gc now jcmd $pid GC.run
trim-interval start -XX:TrimNativeHeapInterval=1000
arena-max-2 start MALLOC_ARENA_MAX=2
arena-max-1 start MALLOC_ARENA_MAX=1
trim-threshold start MALLOC_TRIM_THRESHOLD_=131072
mmap-threshold start MALLOC_MMAP_THRESHOLD_=65536
preload-jemalloc start LD_PRELOAD=libjemalloc.so.2
xmx-128 start -Xmx128m
LIST
}
