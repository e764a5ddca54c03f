# Java 17 with many small collections and little native memory: the JVM manages the heap, not malloc.
. "$here/services/java_native.sh"
serve() {
    env "${environment[@]}" java -Xmx512m "${flags[@]}" -cp "$built/java" Service "$port" &
    pid=$!
    ready "$pid" listening "$port"
}
burst() { load /collections "$1" 64 3000 500 6000; }
remedies() {
    cat <<'LIST'
give-back now give_back
jcmd-trim now jcmd $pid System.trim_native_heap
jcmd-gc now jcmd $pid GC.run
jcmd-gc-trim now jcmd $pid GC.run; jcmd $pid System.trim_native_heap
set-periodic-gc now jcmd $pid VM.set_flag G1PeriodicGCInterval 5000
periodic-gc start -XX:G1PeriodicGCInterval=5000
periodic-gc-load start -XX:G1PeriodicGCInterval=5000 -XX:G1PeriodicGCSystemLoadThreshold=0
free-ratio start -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=20
xmx-half start -Xmx256m
serial start -XX:+UseSerialGC
trim-interval start -XX:TrimNativeHeapInterval=1000
arena-max-2 start MALLOC_ARENA_MAX=2
LIST
}
