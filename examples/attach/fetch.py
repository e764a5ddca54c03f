"""Fetches a file of a server again and again, in three threads, and compares it. In: the port, the file. Out: the counts, each second."""
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
        time.sleep(0.02)


for _ in range(3):
    threading.Thread(target=fetch, daemon=True).start()
while True:
    time.sleep(1)
    print(*(f"{name}={count}" for name, count in counts.items()), flush=True)
