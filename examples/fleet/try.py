#!/usr/bin/env python3
"""Whether `allocanary try` is right: ten real programs, three replicas each, against the truth.

Usage: examples/fleet/try.py [COMMAND [SECONDS]]   (as root, with control groups that may be written)

Replicas are started in control groups as a kubelet names them, a fake kubelet tells their names, and an agent reads them each five seconds,
under load. All are started without the line for SECONDS (100), and again, one of three with it. `try` judges what the agent told. The truth
is measured afterwards: three replicas with the line and three without, twice as long. Five lines change something, five do nothing. A
verdict is wrong if it says better or worse of a line that does nothing, or where the truth is not beyond the margin, or equal where it is; the
truth's own uncertainty, at most the margin, is granted.
Exit code 1 if one is wrong, more than three are undecided, or fewer than eight intervals hold the truth.
"""
import http.server, json, math, os, shutil, signal, socket, subprocess, sys, tempfile, threading, time, urllib.request, uuid

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from truth import FOLDER as OTHERS, LIBJEMALLOC, groups, path_of

COMMAND = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "../../target/release/allocanary")
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 100
FOLDER = tempfile.mkdtemp(prefix="try")
EVERY, MARGIN, MIB = 5, 0.05, 1 << 20

# Threads that fill up and let go of most of it, each at its own times.
PYTHON_THREADS = """
import threading, time, random
def work():
    kept = []
    while 1:
        burst = [bytes(random.randrange(200, 9000)) for _ in range(900)]
        kept = (kept + burst[::12])[-300:]
        del burst
        time.sleep(random.uniform(0.3, 0.9))
[threading.Thread(target=work).start() for _ in range(8)]
"""
# A burst of large blocks each two seconds, and one that lives on, above it.
PYTHON_BURSTS = """
import time, random
kept = [bytes(random.randrange(20, 400)) for _ in range(20000)]
while 1:
    burst = [bytes(random.randrange(3000, 12000)) for _ in range(3000)]
    burst.clear()
    kept[random.randrange(20000)] = bytes(random.randrange(20, 400))
    time.sleep(random.uniform(1.7, 2.3))
"""
PYTHON_STEADY = """
import time, random
kept = [bytes(random.randrange(20, 400)) for _ in range(60000)]
while 1:
    for _ in range(20): kept[random.randrange(60000)] = bytes(random.randrange(20, 400))
    time.sleep(0.05)
"""
RUBY_THREADS = """
8.times.map { Thread.new { kept = []; loop {
  burst = Array.new(700) { 'x' * (200 + rand(9000)) }; kept = (kept + burst.each_slice(12).map(&:first)).last(300); burst = nil; GC.start if rand(3) == 0
  sleep 0.4 + rand * 0.6 } } }.each(&:join)
"""
RUBY_STEADY = "a = Array.new(60000) { |i| 'x' * (30 + rand(300)) }; loop { 20.times { a[rand(60000)] = 'x' * (30 + rand(300)) }; sleep 0.05 }"
PERL_BLOCKS = "my @a = map { 'x' x (5000 + int rand 900) } 1..4000; while (1) { $a[rand @a] = 'x' x (5000 + int rand 900) for 1..10; select undef,undef,undef,0.05 }"
PERL_STEADY = "my @a = map { 'x' x (20 + int rand 300) } 1..60000; while (1) { $a[rand @a] = 'x' x (20 + int rand 300) for 1..20; select undef,undef,undef,0.05 }"
# The program itself, where a script of that name starts it.
PYTHON = subprocess.run(["python3.11", "-c", "import sys; print(sys.executable)"], capture_output=True, text=True).stdout.strip()
MALLOC = {"PYTHONMALLOC": "malloc"}

def programs():
    """name: (command of a port, variables, the line, whether it changes something)"""
    redis = lambda port: ["redis-server", "--port", str(port), "--save", "", "--daemonize", "no"]
    jemalloc = {**MALLOC, "LD_PRELOAD": LIBJEMALLOC}
    return {
        "python-threads": (lambda _: [PYTHON, "-c", PYTHON_THREADS], MALLOC, "MALLOC_ARENA_MAX=1", True),
        "ruby-threads": (lambda _: ["ruby", "-e", RUBY_THREADS], {}, "MALLOC_ARENA_MAX=1", True),
        "python-bursts": (lambda _: [PYTHON, "-c", PYTHON_BURSTS], jemalloc, "MALLOC_CONF=dirty_decay_ms:0", True),
        "jemalloc-threads": (lambda _: [PYTHON, "-c", PYTHON_THREADS], jemalloc, "MALLOC_CONF=narenas:1,dirty_decay_ms:1000", True),
        "perl-blocks": (lambda _: ["perl", "-e", PERL_BLOCKS], {}, "MALLOC_MMAP_THRESHOLD_=4096", True),
        "nginx": (lambda port: ["nginx", "-e", "stderr", "-c", nginx(port)], {}, "MALLOC_ARENA_MAX=1", False),
        "redis": (redis, {}, "MALLOC_CONF=dirty_decay_ms:10000", False),
        "python-steady": (lambda _: [PYTHON, "-c", PYTHON_STEADY], MALLOC, "MALLOC_ARENA_MAX=2", False),
        "ruby-steady": (lambda _: ["ruby", "-e", RUBY_STEADY], {}, "MALLOC_ARENA_MAX=4", False),
        "perl-steady": (lambda _: ["perl", "-e", PERL_STEADY], {}, "MALLOC_TOP_PAD_=131072", False),
    }

def nginx(port):
    folder = os.path.join(FOLDER, f"nginx-{port}")
    os.makedirs(folder, exist_ok=True)
    temporary = "".join(f"{kind}_temp_path {folder}/{kind}; " for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    text = (f"daemon off; worker_processes 2; pid {folder}/pid; events {{}} http {{ access_log off; {temporary} "
            f"server {{ listen 127.0.0.1:{port}; location / {{ return 200 ok; }} }} }}")
    with open(os.path.join(folder, "nginx.conf"), "w") as file:
        file.write(text)
    return os.path.join(folder, "nginx.conf")

PODS, PORTS, READS = [], iter(range(7500, 9000)), iter(range(1, 1 << 20))

class Replica:
    def __init__(self, name, number, command, variables, line):
        self.name, self.line, self.port = name, line, next(PORTS)
        # As the steps of `try` make it: a canary is a Deployment of its own.
        self.owner = f"{name}-allocanary-7d9f8" if line else f"{name}-7d9f8"
        self.pod, self.uid, self.id = f"{self.owner}-{uuid.uuid4().hex[:5]}", str(uuid.uuid4()), os.urandom(32).hex()
        self.path = path_of(number, self.uid, self.id)
        for mount in groups():
            os.makedirs(f"{mount}/{self.path}", exist_ok=True)
        def enter():
            for mount in groups():
                with open(f"{mount}/{self.path}/cgroup.procs", "w") as file:
                    file.write(str(os.getpid()))
        environment = {"PATH": os.environ["PATH"], "HOME": FOLDER, **variables, **(dict([line.split("=", 1)]) if line else {})}
        words = command(self.port)
        with open(os.path.join(FOLDER, "log"), "a") as log:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=FOLDER, preexec_fn=enter, start_new_session=True)
        PODS.append(self)

    def resident(self):
        with open(f"{groups()[-1]}/{self.path}/cgroup.procs") as file:
            pids = file.read().split()
        total = 0
        for pid in pids:
            with open(f"/proc/{pid}/status") as file:
                total += sum(int(line.split()[1]) << 10 for line in file if line.startswith("VmRSS"))
        return total

    def end(self):
        PODS.remove(self)
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except OSError:
            pass
        self.process.wait()
        time.sleep(0.05)
        for mount in groups():
            for folder in (self.path, os.path.dirname(self.path)):
                try:
                    os.rmdir(f"{mount}/{folder}")
                except OSError:
                    pass

def kubelet():
    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            pods = [{"metadata": {"name": one.pod, "namespace": "try", "uid": one.uid, "labels": {"pod-template-hash": "7d9f8"},
                                  "ownerReferences": [{"kind": "ReplicaSet", "name": one.owner, "controller": True}]},
                     "status": {"containerStatuses": [{"name": "main", "image": "try:1", "containerID": f"containerd://{one.id}"}]}} for one in list(PODS)]
            body = json.dumps({"kind": "PodList", "items": pods}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        def log_message(self, *_):
            pass
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/pods"

def load(one, until):
    """Three thousand requests at once, and then forty a second, to a redis or an nginx."""
    number = 0
    while time.time() < until and one in PODS:
        try:
            with socket.create_connection(("127.0.0.1", one.port), 2) as to:
                while time.time() < until:
                    if one.name == "redis":
                        key, value = f"k{number * 7919 % 3000}", "v" * (20 + number * 7 % 4000)
                        to.sendall(f"*3\r\n$3\r\nSET\r\n${len(key)}\r\n{key}\r\n${len(value)}\r\n{value}\r\n".encode())
                    else:
                        to.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                    if not to.recv(65536):
                        break
                    number += 1
                    if number > 3000:
                        time.sleep(0.025)
        except OSError:
            time.sleep(0.5)

def round_(lines, seconds, each=lambda: None):
    """Starts three replicas of each, with the lines that `lines` gives, keeps them under load, and returns each one's mean logarithm of resident
    bytes in the later half."""
    all_ = []
    try:
        for number, (name, (command, variables, line, _)) in enumerate(programs().items()):
            all_ += [Replica(name, number, command, variables, line if lines(which) else None) for which in range(3)]
        end = time.time() + seconds
        for one in all_:
            if one.name in ("redis", "nginx"):
                threading.Thread(target=load, args=(one, end), daemon=True).start()
        logs = {one: [] for one in all_}
        while time.time() < end:
            time.sleep(EVERY)
            each()
            if time.time() > end - seconds / 2:
                for one in all_:
                    logs[one].append(math.log(one.resident()))
        gone = [one.name for one in all_ if one.process.poll() is not None]
        if gone:
            sys.exit(f"these have ended: {gone}; see {FOLDER}/log")
        means = {}
        for one, values in logs.items():
            means.setdefault(one.name, []).append(sum(values) / len(values))
        return means
    finally:
        for one in all_:
            one.end()

def main():
    failed, agent = False, None
    readings = os.path.join(FOLDER, "readings")
    os.makedirs(readings)
    try:
        words = [COMMAND, "node", "--listen", "127.0.0.1:0", "--every", f"{EVERY}s", "--cpu-percent", "50", "--kubelet", kubelet()]
        agent = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        url = agent.stderr.readline().split("http://")[1].split("/")[0]
        def read():
            text = urllib.request.urlopen(f"http://{url}/report.json").read()
            with open(os.path.join(readings, f"{next(READS):06}.json"), "wb") as file:
                file.write(text)
        round_(lambda which: False, SECONDS, read)
        round_(lambda which: which == 2, SECONDS, read)
        with_, without = round_(lambda which: True, 2 * SECONDS), round_(lambda which: False, 2 * SECONDS)
        held = undecided = wrong = 0
        print("| program | line | truth | `try` | 95 % interval | word | |\n|---|---|---:|---:|---|---|---|")
        for name, (_, _, line, changes) in programs().items():
            mean = lambda values: sum(values) / len(values)
            ran = subprocess.run([COMMAND, "try", f"try/deployment/{name}", "--env", f"'{line}'", "--json", readings], capture_output=True, text=True)
            if ran.returncode > 1:
                sys.exit(ran.stderr)
            found = json.loads(ran.stdout)
            truth = math.exp(mean(with_[name]) - mean(without[name]))
            effect, word = found["effect"], found["word"]
            inside = bool(effect) and effect["low_ratio"] <= truth <= effect["high_ratio"]
            # Half the distance between the farthest is how sure the truth is. A truth that is less sure than the margin excuses no verdict.
            unsure = min(max(max(values) - min(values) for values in (with_[name], without[name])) / 2, MARGIN)
            low, high = truth * math.exp(-unsure), truth * math.exp(unsure)
            # Where the line does nothing, better and worse are wrong whatever was measured.
            right = {"better": changes and low < 1 - MARGIN, "worse": changes and high > 1 + MARGIN, "equal": high > 1 - MARGIN and low < 1 + MARGIN, "undecided": True}[word]
            held, undecided, wrong = held + inside, undecided + (word == "undecided"), wrong + (not right)
            interval = f"{effect['low_ratio']:.3f} to {effect['high_ratio']:.3f}" if effect else "none"
            told = "" if right else "WRONG"
            print(f"| {name} | `{line}` | {truth:.3f} | {effect['ratio'] if effect else 0:.3f} | {interval} | {word} | {told}{'' if inside else ' outside'} |", flush=True)
            for doubt in found["doubts"]:
                print(f"    {doubt}", file=sys.stderr)
        print(f"\n{wrong} wrong, {undecided} undecided, {held} of 10 intervals hold the truth")
        failed = wrong > 0 or undecided > 3 or held < 8
    finally:
        for one in list(PODS):
            one.end()
        if agent:
            agent.kill()
            agent.wait()
        if not os.environ.get("KEEP"):
            shutil.rmtree(FOLDER, ignore_errors=True)
        shutil.rmtree(OTHERS, ignore_errors=True)
    sys.exit(1 if failed else 0)

if __name__ == "__main__":
    main()
