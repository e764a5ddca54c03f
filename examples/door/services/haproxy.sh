# haproxy after many TLS connections were open at a time.
prepare() { command -v haproxy >/dev/null || apt-get install -y haproxy; }
serve() {
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout "$at/pem.key" -out "$at/pem"
    python3 "$here/bytes.py" $((port + 500)) &
    others=$!
    cat >"$at/haproxy.cfg" <<CONF
global
    maxconn 4000
    nbthread 4
    $(printf '%s\n    ' "${flags[@]//=/ }")
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
listen all
    bind 127.0.0.1:$port ssl crt $at/pem
    http-reuse always
    server bytes 127.0.0.1:$((port + 500)) maxconn 64
CONF
    env "${environment[@]}" haproxy -db -f "$at/haproxy.cfg" &
    pid=$!
    ready "$pid" listening "$port"
}
burst() {
    python3 - "$port" "$1" <<'PYTHON'
import random, socket, ssl, sys
port, seed = map(int, sys.argv[1:])
chance = random.Random(seed)
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
clients = []
for number in range(1500):
    client = context.wrap_socket(socket.create_connection(("127.0.0.1", port)))
    client.sendall(f"GET /request?size={chance.randint(1000, 8000)} HTTP/1.1\r\nHost: door\r\n\r\n".encode())
    client.recv(100)
    clients.append(client)
chance.shuffle(clients)
for client in clients:
    client.close()
PYTHON
}
remedies() {
    cat <<'LIST'
give-back now give_back
small-buffers start tune.bufsize=8192
arena-max-2 start MALLOC_ARENA_MAX=2
LIST
}
