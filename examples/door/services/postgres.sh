# A PostgreSQL backend after a query that sorted and hashed much, and that touched many partitions.
# A backend's resident memory includes the pages of shared_buffers that it has touched. These stay in the server when the backend ends, so
# they are left out.
counted=Anonymous
binaries=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -1)
prepare() {
    [ -n "$binaries" ] || apt-get install -y postgresql
    binaries=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
}
serve() {
    chown postgres "$at"
    as_postgres "$binaries/initdb" -D "$at/data" -A trust --no-sync &&
        as_postgres "$binaries/pg_ctl" -D "$at/data" -w -l "$at/server.log" \
            -o "-p $port -k $at -c fsync=off -c jit=off -c work_mem=400MB -c max_locks_per_transaction=512 -c max_parallel_workers_per_gather=0 ${flags[*]}" start || return
    others=$(head -1 "$at/data/postmaster.pid")
    # Another backend makes the setup.
    psql -q -h "$at" -p "$port" -U postgres postgres <<'SQL'
CREATE TABLE orders (id int, day int, text text) PARTITION BY RANGE (day);
SELECT format('CREATE TABLE orders_%s PARTITION OF orders FOR VALUES FROM (%s) TO (%s)', n, n, n + 1) FROM generate_series(0, 999) AS n \gexec
INSERT INTO orders SELECT n, n % 1000, repeat('x', n % 200) FROM generate_series(1, 400000) AS n;
SQL
    # The measured backend: its client keeps the connection open.
    mkfifo "$at/in"
    psql -q -At -h "$at" -p "$port" -U postgres postgres <"$at/in" >"$at/out" 2>&1 &
    others="$! $others"
    exec {client}>"$at/in"
    echo "$client" >"$at/client"
    pid=$(ask 'SELECT pg_backend_pid()')
}
as_postgres() { env "${environment[@]}" setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }
# Sends a statement over the kept connection and prints the answer.
ask() {
    local client
    client=$(cat "$at/client")
    : >"$at/out"
    printf '%s;\n\\echo ready\n' "$1" >&"$client"
    until grep -q '^ready' "$at/out"; do sleep 0.1; done
    grep -v '^ready' "$at/out" || true
}
burst() {
    ask "SELECT setseed(0.$1)"
    ask "SELECT count(*), max(length(text)) FROM (SELECT id, min(text) AS text FROM orders GROUP BY id) AS by_id"
    ask "SELECT count(*) FROM (SELECT (random() * 1e6)::int AS key, string_agg(n::text, ',') FROM generate_series(1, 700000) AS n GROUP BY 1) AS hashed"
    ask "DO \$\$ DECLARE n int; BEGIN FOR n IN 0..999 LOOP EXECUTE format('SELECT count(*) FROM orders_%s WHERE id < 100', n); END LOOP; END \$\$"
}
remedies() {
    cat <<'LIST'
give-back now give_back
discard-all now ask 'DISCARD ALL'
end-the-session now psql -h $at -p $port -U postgres -c "SELECT pg_terminate_backend($pid)" postgres
arena-max-2 start MALLOC_ARENA_MAX=2
trim-threshold start MALLOC_TRIM_THRESHOLD_=131072
mmap-threshold start MALLOC_MMAP_THRESHOLD_=65536
preload-jemalloc start LD_PRELOAD=libjemalloc.so.2
work-mem start -c work_mem=16MB
idle-session-timeout start -c idle_session_timeout=5s
LIST
}
