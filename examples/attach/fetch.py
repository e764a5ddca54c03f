"""Fetches a file of a server again and again, in three threads, and compares it. In: the port, the file. Out: the counts, at Ctrl-C."""
import gzip, sys, threading, time, urllib.request

port, path = sys.argv[1:]
wanted = open(path, "rb").read()
counts = {"good": 0, "wrong": 0}


def fetch():
    while True:
        try:
            request = urllib.request.Request(f"http://127.0.0.1:{port}/file.txt", headers={"Accept-Encoding": "gzip"})
            reply = urllib.request.urlopen(request, timeout=20)
            body = reply.read()
            if reply.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            counts["good" if body == wanted else "wrong"] += 1
        except OSError:
            counts["wrong"] += 1


for _ in range(3):
    threading.Thread(target=fetch, daemon=True).start()
try:
    while True:
        time.sleep(1)
except KeyboardInterrupt:
    print(*(f"{name}={count}" for name, count in counts.items()), flush=True)
