# pyarrow in Python, on the jemalloc that it brings.
. "$here/services/pyarrow.sh"
serve() {
    env ARROW_DEFAULT_MEMORY_POOL=jemalloc "${environment[@]}" PYTHONDONTWRITEBYTECODE=1 "$built/venv/bin/python" "$here/analytics.py" pyarrow "$port" &
    pid=$!
    ready "$pid" listening "$port"
}
