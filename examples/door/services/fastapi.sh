# FastAPI under uvicorn, CPython.
prepare() {
    [ -x "$built/venv/bin/uvicorn" ] && return
    python3 -m venv "$built/venv" && "$built/venv/bin/pip" install --quiet fastapi uvicorn gunicorn
}
serve() {
    (cd "$here" && exec env "${environment[@]}" PYTHONDONTWRITEBYTECODE=1 "$built/venv/bin/python" -m uvicorn fastapi_app:app --port "$port" --log-level warning "${flags[@]}") &
    pid=$!
    ready "$pid" listening "$port"
}
burst() { load /request "$1" 40 400 1000 16000; }
remedies() {
    cat <<'LIST'
give-back now give_back
gc-collect now curl -s localhost:$port/collect
arena-max-2 start MALLOC_ARENA_MAX=2
arena-max-1 start MALLOC_ARENA_MAX=1
trim-threshold start MALLOC_TRIM_THRESHOLD_=131072
mmap-threshold start MALLOC_MMAP_THRESHOLD_=65536
trim-by-itself code TRIM=5
pythonmalloc start PYTHONMALLOC=malloc
preload-jemalloc start LD_PRELOAD=libjemalloc.so.2
pythonmalloc-trim start PYTHONMALLOC=malloc MALLOC_TRIM_THRESHOLD_=131072
LIST
}
