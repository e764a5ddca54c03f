# RabbitMQ (Erlang) after a queue of many messages was emptied. Erlang has its own allocators.
prepare() {
    command -v rabbitmq-server >/dev/null || apt-get install -y rabbitmq-server
    [ -x "$built/venv/bin/python" ] || python3 -m venv "$built/venv"
    "$built/venv/bin/python" -c 'import pika' || "$built/venv/bin/pip" install --quiet pika
}
serve() {
    epmd -port $((port + 600)) -address 127.0.0.1 &
    others=$!
    env HOME="$at" RABBITMQ_NODENAME="door$port@localhost" RABBITMQ_NODE_PORT="$port" RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_DIST_PORT=$((port + 500)) \
        RABBITMQ_MNESIA_BASE="$at/data" RABBITMQ_LOG_BASE="$at" RABBITMQ_ENABLED_PLUGINS_FILE="$at/plugins" RABBITMQ_CONF_ENV_FILE="$at/none" \
        ERL_EPMD_PORT=$((port + 600)) "${environment[@]}" "$(ls -d /usr/lib/rabbitmq/lib/*/sbin/rabbitmq-server)" "${flags[@]}" &
    pid=$!
    ready "$pid" listening "$port"
}
look() { pgrep -P "$pid" beam || echo "$pid"; }
burst() {
    "$built/venv/bin/python" - "$port" "$1" <<'PYTHON'
import random, sys, pika
port, seed = map(int, sys.argv[1:])
chance = random.Random(seed)
channel = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)).channel()
for number in range(8):
    channel.queue_declare(f"queue{number}")
for turn in range(40000):
    channel.basic_publish("", f"queue{turn % 8}", b"x" * chance.randint(100, 8000))
for number in range(8):
    channel.queue_purge(f"queue{number}")
channel.connection.close()
PYTHON
}
remedies() {
    cat <<'LIST'
give-back now give_back
LIST
}
