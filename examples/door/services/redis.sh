# redis of the distribution (it links jemalloc) after 9 of 10 keys were deleted.
redis_server=redis-server
# The variable that its jemalloc reads.
variable=MALLOC_CONF
prepare() { command -v redis-server >/dev/null || apt-get install -y redis-server; }
serve() {
    env "${environment[@]}" "$redis_server" --port "$port" --save '' --dir "$at" --loglevel warning "${flags[@]}" &
    pid=$!
    ready "$pid" listening "$port"
}
ask() { redis-cli -e -p "$port" "$@"; }
burst() {
    python3 - "$1" <<'PYTHON' | ask --pipe
import random, sys
chance = random.Random(int(sys.argv[1]))
keys = list(range(600000))
for key in keys:
    print(f"SET key:{key} {'x' * chance.randint(16, 300)}", end="\r\n")
chance.shuffle(keys)
for key in keys[: len(keys) * 9 // 10]:
    print(f"DEL key:{key}", end="\r\n")
PYTHON
}
# Writes the data to its file, ends, and starts again from the file.
restart() {
    ask save
    kill "$pid"
    wait "$pid"
    serve
}
remedies() {
    cat <<LIST
give-back now give_back
memory-purge now ask memory purge
activedefrag now ask config set activedefrag yes active-defrag-ignore-bytes 1mb active-defrag-threshold-lower 5
restart now restart
narenas-1 start $variable=narenas:1
narenas-2 start $variable=narenas:2
background-thread start $variable=background_thread:true
decay-0 start $variable=dirty_decay_ms:0,muzzy_decay_ms:0
arena-max-2 start MALLOC_ARENA_MAX=2
LIST
}
