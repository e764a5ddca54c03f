# gunicorn, a master with four Python workers of eight threads.
. "$here/services/fastapi.sh"
serve() {
    (cd "$here" && exec env "${environment[@]}" PYTHONDONTWRITEBYTECODE=1 "$built/venv/bin/python" -m gunicorn wsgi_app:app \
        --workers 4 --threads 8 --bind "127.0.0.1:$port" --log-level warning "${flags[@]}") &
    pid=$!
    ready "$pid" listening "$port"
    while kill -0 "$pid" && [ "$(look | wc -l)" -lt 4 ]; do sleep 0.1; done
}
look() { pgrep -P "$pid"; }
burst() { load /request "$1" 32 200 500 8000 fresh; }
remedies() {
    cat <<'LIST'
give-back now give_back
reload now kill -HUP $pid
arena-max-2 start MALLOC_ARENA_MAX=2
max-requests start --max-requests=20
LIST
}
