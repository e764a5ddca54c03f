"""A FastAPI service: its plain functions run on the thread pool of 40 threads. Of each request a little stays, as in a cache."""

import ctypes
import gc
import os
import random
import threading
import time

from fastapi import FastAPI

app = FastAPI()
cache = []


def trim():
    """What a developer can add: the C library gives back every TRIM seconds."""
    while True:
        time.sleep(int(os.environ["TRIM"]))
        ctypes.CDLL("libc.so.6").malloc_trim(0)


if "TRIM" in os.environ:
    threading.Thread(target=trim, daemon=True).start()


@app.get("/request")
def work(size: int, seed: int):
    chance = random.Random(seed)
    rows, taken = [], 0
    while taken < size:
        text = "x" * int(64 * 256 ** chance.random())
        rows.append({"id": len(rows), "text": text, "tags": [str(chance.random()) for _ in range(4)]})
        taken += len(text) + 900
    time.sleep(0.02)
    cache.append(rows[chance.randrange(len(rows))]["text"])
    del cache[:-2000]
    return {"rows": len(rows)}


@app.get("/collect")
def collect():
    return gc.collect()
