"""Three threads make and check dictionaries; the first one prints the counts each second."""
import json, threading, time

counts = {"rounds": 0, "wrong": 0}


def work(seed):
    kept = {}
    while True:
        seed = (seed * 1103515245 + 12345) & 0x7FFFFFFF
        key = seed >> 8 & 511
        wanted = {"key": key, "text": "x" * (key % 200), "list": list(range(key % 50))}
        if key in kept:
            if json.loads(kept.pop(key)) != wanted:
                counts["wrong"] += 1
        else:
            kept[key] = json.dumps(wanted)
        counts["rounds"] += 1
        if counts["rounds"] % 200 == 0:
            time.sleep(0.001)


for seed in range(3):
    threading.Thread(target=work, args=(seed,), daemon=True).start()
while True:
    time.sleep(1)
    print(*(f"{name}={count}" for name, count in counts.items()), flush=True)
