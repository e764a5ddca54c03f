"""HTTP load: CONNECTIONS clients make REQUESTS requests in all, each for SIZE bytes of work, from LEAST to MOST KiB by the seed.

Usage: load.py PORT PATH SEED CONNECTIONS REQUESTS LEAST MOST [fresh] [slow]
fresh: a connection for each request; slow: an answer is read in pieces, with pauses
"""

import http.client
import random
import sys
import threading
import time

port, path, seed, connections, requests, least, most = (
    int(word) if word.isdigit() else word for word in sys.argv[1:8]
)
fresh, slow = "fresh" in sys.argv, "slow" in sys.argv
failed = []


def client(number):
    chance = random.Random(seed * 1000 + number)
    connection = None
    for turn in range(number, requests, connections):
        if connection is None or fresh:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        size = int(least * 1024 * (most / least) ** chance.random())
        try:
            connection.request("GET", f"{path}?size={size}&seed={seed * 100000 + turn}")
            answer = connection.getresponse()
            while answer.read(65536):
                if slow:
                    time.sleep(0.02)
            if answer.status != 200:
                failed.append(f"status {answer.status}")
            if fresh:
                connection.close()
        except OSError as error:
            failed.append(repr(error))
            connection = None


threads = [threading.Thread(target=client, args=(number,)) for number in range(connections)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
if failed:
    sys.exit(f"{len(failed)} of {requests} requests failed, for example: {failed[0]}")
