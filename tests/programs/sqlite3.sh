# The shell of SQLite: indices, windows, JSON and the full-text search.
packages="sqlite3"
program() { readlink -f "$(command -v sqlite3)"; }
version() { sqlite3 --version | awk '{ print $1 }'; }
run() {
    sqlite3 base.db << 'SQL'
pragma journal_mode=wal;
create table t(a integer primary key, b text, c integer);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 60000)
insert into t select i, hex(i * 7919 % 10007) || substr('xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx', 1, i % 37), i % 97 from n;
create index b on t(b, c);
select count(*), sum(length(b)) from t where b > '3';
select c, count(*), max(b) from t group by c order by 2 desc, 1 limit 5;
select a, rank() over (partition by c order by b desc) from t order by b, a limit 5;
select sum(json_extract(j, '$.a')) from (select json_object('a', a, 'b', b) j from t where a < 20000);
create virtual table words using fts5(text);
insert into words select 'word' || (a % 1000) || ' of ' || b from t where a < 20000;
select count(*) from words where words match 'word77 OR word99';
update t set b = b || b where c < 20;
delete from t where c > 60;
vacuum;
pragma integrity_check;
select count(*), sum(length(b)) from t;
SQL
    sqlite3 base.db 'select * from missing' 2> /dev/null
    echo "missing $?"
}
