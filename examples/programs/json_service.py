# A service of eight threads that parse and render JSON, and its load. The threads stay when their connections end.
#   python3 json_service.py serve PORT
#   python3 json_service.py load PORT     prints requests per second
import json, socket, sys, time
from concurrent.futures import ThreadPoolExecutor

THREADS, REQUESTS, ROWS = 8, 6, 1500


def answer(connection):
    with connection, connection.makefile("rwb") as stream:
        for line in stream:
            rows = json.loads(json.dumps([{f"k{i}": "x" * (i % 4000)} for i in range(int(line))]))
            stream.write(b"%d\n" % len(rows))
            stream.flush()


def ask(port):
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rwb") as stream:
        for _ in range(REQUESTS):
            stream.write(b"%d\n" % ROWS)
            stream.flush()
            assert int(stream.readline()) == ROWS


what, port = sys.argv[1], int(sys.argv[2])
with ThreadPoolExecutor(THREADS) as pool:
    if what == "serve":
        with socket.create_server(("127.0.0.1", port)) as server:
            while True:
                pool.submit(answer, server.accept()[0])
    begun = time.monotonic()
    for asked in [pool.submit(ask, port) for _ in range(THREADS)]:
        asked.result()
    print(f"{THREADS * REQUESTS / (time.monotonic() - begun):.1f} requests per second")
