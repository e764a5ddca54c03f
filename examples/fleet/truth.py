#!/usr/bin/env python3
"""What the agent tells of real programs, against each program's own counters.

Usage: examples/fleet/truth.py [COMMAND]   (as root, with control groups that may be written)

Thirty programs are started in control groups as a kubelet names them, a fake kubelet tells their names, and the agent reads once, idle and
under load. Of each: names, allocator, settings, parts against resident, and heap against mallinfo2 or jemalloc's own counters. A part of a
heap is right if what the program counts and the agent does not is memory that is not resident. Then `give-back` is tried on those that
are idle, against the bound that was told. Exit code 1 if one is wrong, or if more than one in ten is unknown.
"""
import http.server, json, os, shutil, signal, socket, struct, subprocess, sys, tempfile, threading, time, uuid

HERE = os.path.dirname(os.path.abspath(__file__))
COMMAND = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "../../target/release/allocanary")
FOLDER = tempfile.mkdtemp(prefix="truth")
PRELOAD = os.path.join(FOLDER, "own_counters.so")
GROUPS = "/sys/fs/cgroup"
MIB = 1 << 20
LIBJEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"

PYTHON = "import time,random\nx={i:bytes(random.randrange(20,400)) for i in range(60000)}\n[x.pop(i) for i in range(0,60000,3)]\n%s\nwhile 1:\n %s"
IDLE, BUSY = "time.sleep(9)", "x[random.randrange(60000)]=bytes(random.randrange(20,400)); time.sleep(0.0005)"
THREADS = ("import threading,time,random\ndef f():\n x=[bytes(random.randrange(20,4000)) for i in range(5000)]\n del x[::3]\n time.sleep(999)\n"
           "t=[threading.Thread(target=f) for i in range(6)]\n[i.start() for i in t]\n[i.join() for i in t]")

# name: (command, what is written to its standard input and kept open, variables, the allocator that is right)
def programs():
    all_ = {
        "python-malloc": (["python3.11", "-c", PYTHON % ("", IDLE)], "", {"PYTHONMALLOC": "malloc"}, "glibc"),
        "python-busy": (["python3.11", "-c", PYTHON % ("", BUSY)], "", {"PYTHONMALLOC": "malloc"}, "glibc"),
        "python": (["python3.11", "-c", PYTHON % ("", IDLE)], "", {}, "glibc"),
        "python-threads": (["python3.11", "-c", THREADS], "", {"PYTHONMALLOC": "malloc"}, "glibc"),
        "python-arena-max": (["python3.11", "-c", THREADS], "", {"PYTHONMALLOC": "malloc", "MALLOC_ARENA_MAX": "2"}, "glibc"),
        "python-jemalloc": (["python3.11", "-c", PYTHON % ("", IDLE)], "", {"PYTHONMALLOC": "malloc", "LD_PRELOAD": LIBJEMALLOC, "MALLOC_CONF": "narenas:2"}, "jemalloc"),
        "redis": (["redis-server", "--port", "7391", "--save", "", "--daemonize", "no"], "", {}, "jemalloc"),
        "redis-narenas": (["redis-server", "--port", "7392", "--save", "", "--daemonize", "no"], "", {"MALLOC_CONF": "narenas:1"}, "jemalloc"),
        "nginx": (["nginx", "-p", FOLDER, "-e", "stderr", "-c", os.path.join(FOLDER, "nginx.conf")], "", {}, "glibc"),
        "node": (["node", "-e", "x=[];for(i=0;i<200000;i++)x.push({i,s:'v'+i});y=[];for(i=0;i<60;i++)y.push(Buffer.alloc(200000,1));setInterval(()=>x.length,500)"], "", {}, "glibc"),
        "java": (["java", "-Xmx64m", "-XX:+UseSerialGC", os.path.join(FOLDER, "Main.java")], "", {}, "glibc"),
        "git": (["git", "-C", HERE, "cat-file", "--batch"], "HEAD\nHEAD^{tree}\n", {}, "glibc"),
        "sqlite3": (["sqlite3", ":memory:"], "create table t(a,b);with recursive c(x) as (select 1 union all select x+1 from c where x<60000) insert into t select x,hex(randomblob(40)) from c;delete from t where a%3=0;\n", {}, "glibc"),
        "perl": (["perl", "-e", "%h=map{$_=>'x'x(20+$_%300)}1..60000;delete $h{$_*3} for 1..20000;sleep 999"], "", {}, "glibc"),
        "bash": (["bash", "--norc"], "for i in {1..30000}; do a[$i]=value-$i; done; for ((i=1;i<30000;i+=3)); do unset 'a[i]'; done\n", {}, "glibc"),
        "php": (["php", "-r", "$a=[];for($i=0;$i<60000;$i++)$a[$i]=str_repeat('x',20+$i%300);sleep(999);"], "", {"USE_ZEND_ALLOC": "0"}, "glibc"),
        "php-zend": (["php", "-r", "$a=[];for($i=0;$i<60000;$i++)$a[$i]=str_repeat('x',20+$i%300);sleep(999);"], "", {}, "glibc"),
        "lua": (["lua", "-e", "t={} for i=1,60000 do t[i]=('x'):rep(20+i%300)..i end for i=1,60000,3 do t[i]=nil end collectgarbage() io.read()"], "", {}, "glibc"),
        "ruby": (["ruby", "-e", "a=(1..60000).map{|i| 'x'*(20+i%300)}; a.each_index{|i| a[i]=nil if i%3==0}; GC.start; sleep"], "", {}, "glibc"),
        "gdb": (["gdb", "-q", "-nx", shutil.which("bash") or "bash"], "info functions readline\n", {}, "glibc"),
        "vim": (["vim", "-u", "NONE", "-es"], "call append(0, map(range(60000), '\"line \" .. v:val .. repeat(\"x\", v:val % 90)'))\n", {}, "glibc"),
        "tmux": (["tmux", "-D", "-L", "truth", "-f", "/dev/null"], "", {}, "glibc"),
        "dnsmasq": (["dnsmasq", "-k", "-C", "/dev/null", "-p", "7393", "--listen-address=127.0.0.1", "--bind-interfaces", "-u", "root", "-c", "5000"], "", {}, "glibc"),
        "dbus-daemon": (["dbus-daemon", "--session", "--nofork", "--address=unix:path=" + os.path.join(FOLDER, "bus")], "", {}, "glibc"),
        "jq": (["jq", "-n", "[range(100000)|{a:.,b:(.|tostring)}] as $x | [inputs] | length"], "1\n", {}, "glibc"),
        "gawk": (["gawk", "BEGIN{for(i=0;i<60000;i++)a[i]=\"value-\" i; for(i=0;i<60000;i+=3)delete a[i]} {print}"], "\n", {}, "glibc"),
        "mawk": (["mawk", "BEGIN{for(i=0;i<60000;i++)a[i]=\"value-\" i; for(i=0;i<60000;i+=3)delete a[i]} {print}"], "\n", {}, "glibc"),
        "zsh": (["zsh", "-f"], "for i in {1..30000}; do a[$i]=value-$i; done; setopt NO_HUP\n", {}, "glibc"),
        "fish": (["fish", "--no-config", "-c", "for i in (seq 20000); set -a a value-$i; end; read x"], "", {}, "glibc"),
        "tclsh": (["tclsh"], "for {set i 0} {$i<60000} {incr i} {set a($i) value-$i}\nfor {set i 0} {$i<60000} {incr i 3} {unset a($i)}\n", {}, "glibc"),
        "bc": (["bc", "-q"], "for(i=0;i<30000;i++) a[i]=2^200+i\n", {}, "glibc"),
        "sort": (["sort"], "".join(f"line {i * 7919 % 100003}\n" for i in range(100000)), {}, "glibc"),
        "prometheus": (["prometheus", "--config.file=" + os.path.join(FOLDER, "prometheus.yml"), "--storage.tsdb.path=" + os.path.join(FOLDER, "tsdb"), "--web.listen-address=127.0.0.1:7394"], "", {}, "go"),
        "kubectl": (["kubectl", "proxy", "--port=7395"], "", {}, "go"),
    }
    return {name: one for name, one in all_.items() if shutil.which(one[0][0])}

def path_of(number, uid, id_):
    """The group of a container: every other one by the driver cgroupfs."""
    if number % 2:
        return f"kubepods/burstable/pod{uid}/{id_}"
    low = uid.replace("-", "_")
    return f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{low}.slice/cri-containerd-{id_}.scope"

def groups():
    """Where groups are made: version 2 in its two places, and version 1's controllers."""
    return [one for one in (GROUPS, *(f"{GROUPS}/{name}" for name in ("unified", "memory", "cpu"))) if os.path.exists(one + "/cgroup.procs")]

class Program:
    def __init__(self, name, number, command, text, variables, allocator):
        self.name, self.allocator, self.variables = name, allocator, variables
        self.uid, self.id = str(uuid.uuid4()), os.urandom(32).hex()
        self.path, self.quota = path_of(number, self.uid, self.id), number % 3 == 0
        for mount in groups():
            os.makedirs(f"{mount}/{self.path}", exist_ok=True)
        if self.quota:
            for file, value in ((f"{GROUPS}/cpu/{self.path}/cpu.cfs_quota_us", "50000"), (f"{GROUPS}/{self.path}/cpu.max", "50000 100000")):
                if os.path.exists(file):
                    open(file, "w").write(value)
        def enter():
            for mount in groups():
                open(f"{mount}/{self.path}/cgroup.procs", "w").write(str(os.getpid()))
        environment = {"PATH": os.environ["PATH"], "HOME": FOLDER, "OWN_COUNTERS": os.path.join(FOLDER, "own"), **variables}
        environment["LD_PRELOAD"] = ":".join(filter(None, [variables.get("LD_PRELOAD"), PRELOAD]))
        self.log = open(os.path.join(FOLDER, name + ".log"), "w")
        real = subprocess.run(["readlink", "-f", shutil.which(command[0])], capture_output=True, text=True).stdout.strip()
        if "pyenv" in real and "shims" in (shutil.which(command[0]) or ""):
            real = subprocess.run(["pyenv", "which", command[0]], capture_output=True, text=True).stdout.strip() or shutil.which(command[0])
            command = [real, *command[1:]]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=self.log, stderr=self.log, env=environment, cwd=FOLDER, preexec_fn=enter, start_new_session=True)
        try:
            self.process.stdin.write(text.encode())
            self.process.stdin.flush()
        except OSError:
            pass

    def pids(self):
        return [int(one) for one in open(f"{groups()[-1]}/{self.path}/cgroup.procs").read().split()]

    def own(self):
        """The sums of what its processes count; None if one tells nothing."""
        sums = [0] * 5
        for pid in self.pids():
            try:
                figures = struct.unpack("6Q", open(f"{FOLDER}/own.{pid}", "rb").read(48))
            except (OSError, struct.error):
                return None
            if not figures[5]:
                return None
            sums = [one + more for one, more in zip(sums, figures)]
        return dict(zip(("arena", "used", "mapped", "allocated", "active"), sums))

    def resident(self):
        total = 0
        for pid in self.pids():
            lines = open(f"/proc/{pid}/status").read().splitlines()
            total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))
        return total

    def end(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except OSError:
            pass
        self.process.wait()
        for mount in groups():
            for pid in open(f"{mount}/{self.path}/cgroup.procs").read().split():
                os.kill(int(pid), signal.SIGKILL)
        time.sleep(0.1)
        for mount in groups():
            for folder in (self.path, os.path.dirname(self.path)):
                try:
                    os.rmdir(f"{mount}/{folder}")
                except OSError:
                    pass

def kubelet(all_, namespace="truth", workload=lambda one: one.name):
    """The address of a fake kubelet: each program is a pod of the deployment that `workload` names."""
    pods = [{"metadata": {"name": f"{one.name}-7d9f8-x", "namespace": namespace, "uid": one.uid, "labels": {"pod-template-hash": "7d9f8"},
                          "ownerReferences": [{"kind": "ReplicaSet", "name": f"{workload(one)}-7d9f8", "controller": True}]},
             "status": {"containerStatuses": [{"name": "main", "image": "truth:1", "containerID": f"containerd://{one.id}"}]}} for one in all_]
    body = json.dumps({"kind": "PodList", "items": pods}).encode()
    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        def log_message(self, *_):
            pass
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/pods"

def load(port, until, count):
    """Writes to a redis, or asks an nginx, until a time."""
    try:
        with socket.create_connection(("127.0.0.1", port), 2) as one:
            number = 0
            while time.time() < until and number < count:
                key, value = f"k{number % 30000}", "v" * (20 + number * 7 % 400)
                one.sendall(f"*3\r\n$3\r\nSET\r\n${len(key)}\r\n{key}\r\n${len(value)}\r\n{value}\r\n".encode() if port != 7396
                            else b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                one.recv(65536)
                number += 1
    except OSError:
        pass

def within(value, low, high, part=0.02, few=256 << 10):
    return low - part * low - few <= value <= high + part * high + few

def judge(one, row, before, after, resident):
    """What is wrong, and whether its heap is known."""
    wrong, known = [], True
    parts = row["parts_bytes"]
    if (row["namespace"], row["workload"], row["container"]) != ("truth", f"deployment/{one.name}", "main"):
        wrong.append(f"names {row['namespace']} {row['workload']} {row['container']}")
    if row["allocator"] != one.allocator:
        known = False
        if row["allocator"] != "unknown":
            wrong.append(f"allocator {row['allocator']}")
    for name in ("MALLOC_ARENA_MAX", "MALLOC_CONF"):
        if name in one.variables and row["settings"] == ["unknown"]:
            known = False
        elif name in one.variables and f"{name}={one.variables[name]}" not in row["settings"]:
            wrong.append(f"settings {row['settings']}")
    if (row["quota_cores"] == 0.5) != one.quota:
        wrong.append(f"quota {row['quota_cores']}")
    total = sum(parts.values())
    if not within(total, min(resident), max(resident), 0.01, 64 << 10):
        wrong.append(f"parts {total} of resident {resident}")
    heap = sum(parts[key] for key in ("live", "cached", "fragmentation", "free_pages", "lazy_free", "padding", "metadata"))
    if known and one.allocator in ("glibc", "jemalloc"):
        if before is None or after is None:
            return wrong, "no counters"
        low, high = (min, max)
        have = parts["live"] + parts["cached"]
        if one.allocator == "glibc":
            own = [figures["used"] + figures["mapped"] for figures in (before, after)]
            addresses = [figures["arena"] + figures["mapped"] for figures in (before, after)]
            blocks = [figures["mapped"] for figures in (before, after)]
            for key, counted in (("allocator_mapped_bytes", addresses), ("allocator_mmapped_bytes", blocks)):
                if row[key] is None or not within(row[key], low(counted), high(counted), 0.02, 64 << 10):
                    wrong.append(f"{key} {row[key]} of {counted}")
        else:
            own = [figures["allocated"] for figures in (before, after)]
            addresses = [figures["active"] for figures in (before, after)]
            if row["allocator_active_bytes"] is None or not within(row["allocator_active_bytes"], low(addresses), high(addresses), 0.02, 64 << 10):
                wrong.append(f"active {row['allocator_active_bytes']} of {addresses}")
        if heap == 0:
            known = False
        else:
            # Of jemalloc's addresses in use, free pages are none.
            there = heap if one.allocator == "glibc" else have + parts["fragmentation"]
            missing = max(0, high(addresses) - there)
            if not (have <= high(own) * 1.02 + (256 << 10) and have >= low(own) * 0.98 - (256 << 10) - missing):
                wrong.append(f"live {have} of {own}, of which {missing} may not be resident")
    return wrong, "right" if known else "unknown"

def give_back(all_, rows):
    """What give-back gives, against the bound that the agent told. Returns whether one was broken."""
    tried, broken, refused = 0, 0, 0
    for one in all_:
        bound = next((bound for bound in rows.get(f"{one.name}-7d9f8-x", {}).get("reclaimable", []) if bound["remedy"] == "give-back"), None)
        if not bound or len(one.pids()) != 1:
            continue
        before = one.resident()
        ran = subprocess.run([COMMAND, "give-back", str(one.pids()[0]), "--yes"], capture_output=True, text=True)
        gave = before - one.resident()
        if ran.returncode:
            refused += 1
            continue
        tried += 1
        if gave > bound["reclaimable_bytes"] * 1.01 + (64 << 10):
            broken += 1
            print(f"  BROKEN: {one.name}: give-back gave {gave}, at most {bound['reclaimable_bytes']} were told")
    print(f"give-back: {tried} tried, {broken} gave more than was told, {refused} refused")
    return broken > 0

def read(all_, url, what):
    before = {one.name: (one.own(), one.resident()) for one in all_}
    out = subprocess.run([COMMAND, "node", "--once", "--json", "--kubelet", url], capture_output=True, text=True)
    if out.returncode:
        sys.exit(out.stderr)
    report = json.loads(out.stdout)
    after = {one.name: (one.own(), one.resident()) for one in all_}
    rows = {row["pod"]: row for row in report["rows"]}
    print(f"\n{what}: {'program':<18}{'allocator':<10}{'resident':>9}{'live':>8}{'cached':>8}{'frag':>8}{'free pg':>8}{'runtime':>8}{'unknown':>8}  MiB")
    counts, failed = {"right": 0, "unknown": 0, "wrong": 0}, False
    for one in all_:
        row = rows.get(f"{one.name}-7d9f8-x")
        if not row:
            print(f"  {one.name}: no row")
            counts["wrong"], failed = counts["wrong"] + 1, True
            continue
        parts = row["parts_bytes"]
        wrong, how = judge(one, row, before[one.name][0], after[one.name][0], (before[one.name][1], after[one.name][1]))
        if wrong:
            how = "WRONG: " + "; ".join(wrong)
        counts["wrong" if wrong else "unknown" if how != "right" else "right"] += 1
        figures = "".join(f"{parts.get(key, 0) / MIB:8.1f}" for key in ("live", "cached", "fragmentation", "free_pages", "runtime", "unknown"))
        print(f"        {one.name:<18}{row['allocator']:<10}{sum(parts.values()) / MIB:9.1f}{figures}  {how}")
    print(f"{what}: {counts['right']} right, {counts['unknown']} unknown, {counts['wrong']} wrong, of {len(all_)}; "
          f"{report['own']['walks']} walks of the whole machine took {report['own']['cpu_seconds']:.1f} s of CPU", flush=True)
    # An agent that knows nothing is never wrong.
    return failed or counts["wrong"] > 0 or counts["right"] < 0.9 * len(all_), rows

def write_files():
    """What some of the programs are started with."""
    open(os.path.join(FOLDER, "nginx.conf"), "w").write(
        f"daemon off; worker_processes 2; pid {FOLDER}/nginx.pid; events {{}} http {{ access_log off; client_body_temp_path {FOLDER}/b; proxy_temp_path {FOLDER}/p; "
        f"fastcgi_temp_path {FOLDER}/f; uwsgi_temp_path {FOLDER}/u; scgi_temp_path {FOLDER}/s; server {{ listen 127.0.0.1:7396; location / {{ return 200 ok; }} }} }}")
    open(os.path.join(FOLDER, "Main.java"), "w").write(
        "class Main { public static void main(String[] a) throws Exception { java.util.Map<Integer,String> m=new java.util.HashMap<>(); "
        "for (int i=0;i<60000;i++) m.put(i, \"v\"+i); Thread.sleep(999999); } }")
    open(os.path.join(FOLDER, "prometheus.yml"), "w").write("global: {}\n")

def main():
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-pthread", "-o", PRELOAD, os.path.join(HERE, "own_counters.c"), "-ldl"], check=True)
    write_files()
    all_, failed = [], False
    try:
        for number, (name, one) in enumerate(programs().items()):
            all_.append(Program(name, number, *one))
        time.sleep(12)
        for port in (7391, 7392):
            load(port, time.time() + 20, 30000)
        time.sleep(3)
        gone = [one.name for one in all_ if one.process.poll() is not None]
        if gone:
            print("left out, since they have ended:", ", ".join(gone))
        all_alive = [one for one in all_ if one.process.poll() is None]
        url = kubelet(all_alive)
        failed |= read(all_alive, url, "idle")[0]
        until = time.time() + 60
        for port in (7391, 7392, 7396):
            threading.Thread(target=load, args=(port, until, 10**9), daemon=True).start()
        time.sleep(2)
        wrong, rows = read(all_alive, url, "load")
        failed |= wrong
        failed |= give_back([one for one in all_alive if one.name not in ("redis", "redis-narenas", "nginx", "python-busy")], rows)
    finally:
        for one in all_:
            one.end()
        shutil.rmtree(FOLDER, ignore_errors=True)
    sys.exit(1 if failed else 0)

if __name__ == "__main__":
    main()
