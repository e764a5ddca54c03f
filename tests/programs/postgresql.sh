# PostgreSQL: a process for each connection and for each parallel worker, and contexts of its own over malloc.
packages="postgresql"
# It refuses to run as root, and another user cannot write to a folder that `allocanary record` makes.
recorded_by_hand=1
folder() { echo /usr/lib/postgresql/*/bin | awk '{ print $NF }'; }
program() { readlink -f "$(folder)/postgres"; }
version() { "$(folder)/postgres" --version | awk '{ print $3 }'; }
as_user() {
    if [ "$(id -u)" = 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi
}
ask() { psql -X -A -t -q -h "$PWD" -U postgres -d postgres "$@"; }
run() {
    local bin server
    bin=$(folder)
    chmod 777 .
    as_user "$bin/initdb" -D data -U postgres -A trust -N --locale=C.UTF-8 > initdb.log 2>&1 || return 9
    as_user "$bin/postgres" -D "$PWD/data" -k "$PWD" -c listen_addresses= -c fsync=off -c logging_collector=off \
        -c shared_buffers=32MB > server.log 2>&1 &
    server=$!
    until_it_answers ask -c 'select 1' || return 8
    ask << 'SQL'
create table t as select n as a, md5(n::text) as b, n % 97 as c from generate_series(1, 100000) n;
create index on t(a);
create index on t(b);
analyze t;
set max_parallel_workers_per_gather = 2;
set parallel_setup_cost = 0;
set min_parallel_table_scan_size = 0;
select count(*), sum(a), max(b) from t where c < 50;
select c, count(*), sum(length(b)) from t group by c order by c limit 5;
select a, rank() over (partition by c order by b) from t order by b limit 5;
select sum((j->>'a')::int), count(j->'x') from (select jsonb_build_object('a', a, 'x', b) j from t where a < 20000) s;
select string_agg(b, ',' order by b) from t where a < 4;
do $$ begin for i in 1..2000 loop execute format('update t set c = %s where a = %s', i, i); end loop; end $$;
select sum(c) from t;
select count(*) from t x join t y on x.b = y.b;
select 1 / 0;
vacuum analyze t;
SQL
    echo "psql $?"
    for n in 1 2 3 4; do ask -c "select $n, count(*) from t where c = $n; select pg_sleep(0.01)" > "out$n" & jobs[n]=$!; done
    for n in 1 2 3 4; do wait "${jobs[n]}"; cat "out$n"; done
    kill -INT "$(head -n 1 data/postmaster.pid)"
    wait "$server"
    echo "server $?"
}
