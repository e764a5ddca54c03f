"""What the pods of node.sh run: pods.py leaks | fragments | threads | short."""

import ctypes
import sys
import threading
import time


def leaks():
    """100 KB each half a second, to which nothing points."""
    libc = ctypes.CDLL("libc.so.6")
    libc.malloc.restype = ctypes.c_void_p
    while True:
        for _ in range(200):
            ctypes.memset(libc.malloc(500), 1, 500)
        time.sleep(0.5)


def fragments():
    """Each eighth of 400,000 blocks stays."""
    kept = [bytes(700) for _ in range(400_000)]
    kept = kept[::8] + [bytes(700)]
    time.sleep(1e6)


def threads():
    """Eight threads make blocks and free them."""

    def work():
        while True:
            _ = [bytes(n % 5000 + 500) for n in range(2000)]
            time.sleep(0.2)

    for _ in range(8):
        threading.Thread(target=work, daemon=True).start()
    time.sleep(1e6)


def short():
    """Lives for 20 s."""
    kept = [bytes(700) for _ in range(20_000)]
    time.sleep(20)
    return kept


{"leaks": leaks, "fragments": fragments, "threads": threads, "short": short}[sys.argv[1]]()
