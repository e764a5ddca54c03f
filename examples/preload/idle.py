# Eight threads render and parse JSON for a moment, then wait for a message that does not come. Prints a sum, and the anonymous
# resident memory in KiB some time later. Run it with and without a preload: see docs/lab/preloads.md. Its arguments: how many times
# each thread does so, 40 by default; and after how many seconds the memory is read, 2 by default.
import json, socket, sys, threading, time

rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 40
pause = float(sys.argv[2]) if len(sys.argv) > 2 else 2

done, total = threading.Barrier(9), []


def work():
    end, other = socket.socketpair()
    end.settimeout(60)
    for _ in range(rounds):
        rows = json.loads(json.dumps([{f"k{i}": "x" * (i % 4000)} for i in range(3000)]))
    total.append(len(rows))
    del rows
    done.wait()
    end.recv(1)


for _ in range(8):
    threading.Thread(target=work, daemon=True).start()
done.wait()
time.sleep(pause)
with open("/proc/self/status") as status:
    kib = next(line.split()[1] for line in status if line.startswith("RssAnon"))
print(sum(total), kib)
