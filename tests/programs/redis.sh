# Redis: Debian links it with jemalloc as a shared library, so that a preload's allocator takes its place. It forks to save.
packages="redis-server redis-tools"
program() { readlink -f "$(command -v redis-server)"; }
version() { redis-server --version | sed 's/.*v=//; s/ .*//'; }
ask() { redis-cli -s redis.sock "$@"; }
run() {
    local server
    redis-server --port 0 --unixsocket "$PWD/redis.sock" --dir "$PWD" --save '' --io-threads 2 > server.log 2>&1 &
    server=$!
    until_it_answers ask ping || return 8
    awk 'BEGIN { for (n = 1; n <= 30000; n++) { printf "SET key:%d %0*d\r\n", n, n % 300 + 1, n; printf "RPUSH list:%d %d\r\n", n % 50, n
        printf "HSET hash:%d f%d %d\r\n", n % 100, n, n; printf "ZADD set %d m%d\r\n", n * 7919 % 10007, n } }' | ask --pipe | tail -n 1
    ask dbsize
    ask strlen key:299
    ask eval 'local s = 0; for n = 1, 30000 do s = s + #redis.call("GET", "key:" .. n) end; return s' 0
    ask lrange list:7 0 4
    ask hlen hash:5
    ask zrange set 0 4 withscores
    ask sort list:3 limit 0 3 desc
    ask save
    ask bgrewriteaof
    until_it_answers eval 'ask info persistence | grep -q "aof_rewrite_in_progress:0" && ask info persistence | grep -q "aof_rewrite_scheduled:0"'
    ask debug reload
    ask eval 'for n = 1, 30000, 2 do redis.call("DEL", "key:" .. n) end; return redis.call("DBSIZE")' 0
    ask flushall async
    ask dbsize
    ask shutdown nosave
    wait "$server"
    echo "server $?"
}
