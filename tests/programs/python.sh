# Python with threads, greenlets (stacks that are copied), asyncio and forked workers; each small object is a block of its own.
packages="python3 python3-greenlet"
program() { readlink -f /usr/bin/python3; }
version() { /usr/bin/python3 -c 'import platform; print(platform.python_version())'; }
run() {
    cat > all.py << 'PYTHON'
import asyncio, hashlib, json, multiprocessing, re, sqlite3, threading, time, zlib
import greenlet


def digest(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def work(n):
    time.sleep(0.005)
    return sum(len(json.dumps({str(i): "x" * i})) for i in range(200 + n))


def chain(n):
    total, main = 0, greenlet.getcurrent()

    def body(size):
        text = "g" * size
        for turn in range(20):
            time.sleep(0.002 if turn == size % 20 else 0)
            main.switch(len(text) + turn)
        return 0

    greens = [greenlet.greenlet(body) for _ in range(n)]
    for turn in range(21):
        total += sum(green.switch(1000 * at) if not turn else green.switch() for at, green in enumerate(greens))
    return total


async def wait(n):
    await asyncio.sleep(0.002 * (n % 5))
    return work(n % 3)


async def all_of(n):
    return sum(await asyncio.gather(*(wait(at) for at in range(n))))


if __name__ == "__main__":
    done = []
    threads = [threading.Thread(target=lambda n=n: done.append((work(n), chain(10 + n)))) for n in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    print(sorted(done))
    print(chain(100), asyncio.run(all_of(30)))
    with multiprocessing.get_context("fork").Pool(3) as pool:
        print(sum(pool.map(work, range(24))))
    rows = [{"id": at, "name": "n" * (at % 300)} for at in range(20000)]
    print(digest(json.loads(json.dumps(rows))), len(re.findall(r"n{7}", "".join(row["name"] for row in rows))))
    base = sqlite3.connect(":memory:")
    base.execute("create table t(a, b)")
    base.executemany("insert into t values(?, ?)", ((at, "b" * (at % 50)) for at in range(5000)))
    print(base.execute("select sum(a), sum(length(b)) from t").fetchone(), len(zlib.compress(b"abc" * 300000)))
PYTHON
    PYTHONMALLOC=malloc /usr/bin/python3 all.py
}
