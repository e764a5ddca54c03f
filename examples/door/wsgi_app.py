"""A WSGI application: each request parses and sorts a JSON document. Of each a little stays, as in a cache."""

import json
import random
import urllib.parse

cache = []


def app(environment, start):
    asked = urllib.parse.parse_qs(environment["QUERY_STRING"])
    size, chance = int(asked["size"][0]), random.Random(int(asked["seed"][0]))
    rows, taken = [], 0
    while taken < size:
        rows.append({"id": chance.random(), "text": "x" * int(64 * 256 ** chance.random())})
        taken += len(rows[-1]["text"]) + 200
    parsed = json.loads(json.dumps(rows))
    parsed.sort(key=lambda row: row["id"])
    cache.append(parsed[0]["text"])
    del cache[:-2000]
    answer = str(len(parsed)).encode()
    start("200 OK", [("Content-Length", str(len(answer)))])
    return [answer]
