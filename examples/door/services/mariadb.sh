# MariaDB after many connections that sorted and grouped much.
prepare() { command -v mariadbd >/dev/null || apt-get install -y --no-install-recommends mariadb-server; }
serve() {
    chown mysql "$at"
    # The usual folder for temporary files may be root's.
    local -x TMPDIR=$at
    mariadb-install-db --no-defaults --user=mysql --datadir="$at/data" --skip-test-db --auth-root-authentication-method=normal || return
    env "${environment[@]}" mariadbd --no-defaults --user=mysql --datadir="$at/data" --socket="$at/sock" --port="$port" --bind-address=127.0.0.1 \
        --innodb-flush-log-at-trx-commit=0 --innodb-buffer-pool-size=256M --max-heap-table-size=64M --tmp-table-size=64M \
        --sort-buffer-size=16M --thread-cache-size=64 "${flags[@]}" &
    pid=$!
    ready "$pid" listening "$port" || return
    ask <<'SQL'
CREATE DATABASE door;
CREATE TABLE door.orders (id INT PRIMARY KEY, day INT, text VARCHAR(250));
INSERT INTO door.orders SELECT seq, seq % 1000, REPEAT('x', seq % 200) FROM door.seq_1_to_100000;
SQL
}
ask() { mariadb --no-defaults --socket="$at/sock" --user=root "$@"; }
burst() {
    local clients=() number
    for number in {1..8}; do
        ask -N door <<SQL >/dev/null &
SELECT COUNT(*) FROM (SELECT id % 20011 AS k, GROUP_CONCAT(text ORDER BY id * $number) AS t FROM orders GROUP BY k) AS grouped;
SELECT COUNT(*) FROM (SELECT CONCAT(text, id) AS t FROM orders GROUP BY t) AS hashed;
SELECT id FROM orders ORDER BY CONCAT(text, id * $number) LIMIT 50000, 1;
SQL
        clients+=($!)
    done
    wait "${clients[@]}"
}
remedies() {
    cat <<'LIST'
give-back now give_back
preload-jemalloc start LD_PRELOAD=libjemalloc.so.2
arena-max-2 start MALLOC_ARENA_MAX=2
small-pool start --innodb-buffer-pool-size=32M
LIST
}
