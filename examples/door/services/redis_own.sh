# redis as its makers build it and as its container image has it: with its own jemalloc, which tells redis how full a slab is. Active
# defragmentation needs this. It is built from the distribution's source package, which is in the distribution's repository.
. "$here/services/redis.sh"
redis_server=$built/redis_own
variable=JE_MALLOC_CONF
prepare() {
    command -v redis-cli >/dev/null || apt-get install -y redis-tools
    [ -x "$redis_server" ] && return
    mkdir -p "$work/apt/parts" "$work/apt/lists/partial" "$work/redis"
    sed 's/^Types:.*/Types: deb-src/' /etc/apt/sources.list.d/debian.sources >"$work/apt/parts/source.sources"
    local options=(-o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$work/apt/parts" -o "Dir::State::Lists=$work/apt/lists")
    apt-get "${options[@]}" update &&
        (cd "$work" && apt-get "${options[@]}" source --download-only redis) &&
        tar -C "$work/redis" --strip-components=1 -xzf "$work"/redis_*.orig.tar.gz &&
        make -C "$work/redis/src" MALLOC=jemalloc -j2 redis-server &&
        cp "$work/redis/src/redis-server" "$redis_server"
}
