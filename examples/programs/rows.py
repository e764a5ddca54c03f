#!/usr/bin/env python3
# Eight threads that parse and keep rows for a moment: each has an arena of glibc's. The first example of docs/programs.md and docs/tuning.md.
import json
from concurrent.futures import ThreadPoolExecutor


def parse(seed):
    rows = json.loads(json.dumps([{f"k{i}": "x" * ((i * seed) % 4000)} for i in range(1500)]))
    return len(rows)


with ThreadPoolExecutor(8) as pool:
    print(sum(pool.map(parse, range(1, 33))))
