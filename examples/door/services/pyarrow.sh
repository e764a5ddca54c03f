# pyarrow in Python: it brings its own mimalloc (and its own jemalloc: ARROW_DEFAULT_MEMORY_POOL=jemalloc).
. "$here/services/duckdb.sh"
library=pyarrow
burst() { load /request "$1" 16 24 2000 8000; }
remedies() {
    cat <<'LIST'
give-back now give_back
arena-max-2 start MALLOC_ARENA_MAX=2
pool-jemalloc start ARROW_DEFAULT_MEMORY_POOL=jemalloc
pool-system start ARROW_DEFAULT_MEMORY_POOL=system
LIST
}
