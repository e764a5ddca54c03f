# memcached after all its values were deleted.
prepare() { command -v memcached >/dev/null || apt-get install -y memcached; }
serve() {
    env "${environment[@]}" memcached -u nobody -l 127.0.0.1 -p "$port" -m 512 "${flags[@]}" &
    pid=$!
    ready "$pid" listening "$port"
}
burst() {
    python3 - "$port" "$1" <<'PYTHON'
import random, socket, sys
port, seed = map(int, sys.argv[1:])
chance = random.Random(seed)
server = socket.create_connection(("127.0.0.1", port))
for part in range(200):
    lines = []
    for key in range(part * 2000, part * 2000 + 2000):
        text = "x" * chance.randint(16, 1000)
        lines.append(f"set key{key} 0 0 {len(text)} noreply\r\n{text}\r\n")
    server.sendall("".join(lines).encode())
server.sendall(b"flush_all\r\n")
sys.exit(server.recv(100) != b"OK\r\n")
PYTHON
}
remedies() {
    cat <<'LIST'
give-back now give_back
preload-jemalloc start LD_PRELOAD=libjemalloc.so.2
LIST
}
