# duckdb in Python: it brings its own jemalloc, whose functions have the prefix duckdb_je_.
library=duckdb
prepare() {
    [ -x "$built/venv/bin/python" ] || python3 -m venv "$built/venv"
    "$built/venv/bin/python" -c "import $library" || "$built/venv/bin/pip" install --quiet "$library"
}
serve() {
    env "${environment[@]}" PYTHONDONTWRITEBYTECODE=1 "$built/venv/bin/python" "$here/analytics.py" "$library" "$port" &
    pid=$!
    ready "$pid" listening "$port"
}
burst() { load /request "$1" 16 24 4000 16000; }
remedies() {
    cat <<'LIST'
give-back now give_back
arena-max-2 start MALLOC_ARENA_MAX=2
LIST
}
