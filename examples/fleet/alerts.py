#!/usr/bin/env python3
"""Each alert in its staged case and in no other, by pages of a real agent; and names and alerts while pods restart.

Usage: examples/fleet/alerts.py [COMMAND [SECONDS [PART]]]   (PART is 1 or 2, both by default; as root, with control groups that may be written; promtool and prometheus on PATH)

First part: of each case processes run in control groups as a kubelet names them, a fake kubelet tells their names, and two pages of an agent are
saved. `promtool test rules` gets their series for two hours: counters and time stamps go on as they did between the two pages, all else
stays. Second part: a real Prometheus with the same rules, all times in them divided by 20, for SECONDS [default: 300], while pods restart.
Exit code 1 if an alert fires where it should not, or does not where it should, or if a pod has a wrong name.
"""
import http.server, json, os, re, signal, subprocess, sys, tempfile, threading, time, urllib.parse, urllib.request, uuid

if not os.environ.get("ALONE"):
    # In a name space of its own, so that no other process of this machine is read.
    os.environ["ALONE"] = "1"
    os.execvp("unshare", ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, os.path.realpath(__file__), *sys.argv[1:]])
HERE = os.path.dirname(os.path.realpath(__file__))
COMMAND = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "../../target/release/allocanary")
SECONDS = int(sys.argv[2]) if len(sys.argv) > 2 else 300
PART = sys.argv[3] if len(sys.argv) > 3 else "12"
RULES = os.path.realpath(os.path.join(HERE, "../../deploy/node/monitoring/rules.yaml"))
FOLDER = tempfile.mkdtemp(prefix="alerts")
os.chmod(FOLDER, 0o755)
SCALE = 20
# 400 MB in small blocks, of which every eighth stays.
KEPT = "import time\nx=[bytes(967) for i in range(400000)]\nx=x[::8]\ntime.sleep(9999)"

def groups():
    return [one for one in ("/sys/fs/cgroup", *(f"/sys/fs/cgroup/{name}" for name in ("unified", "memory", "cpu"))) if os.path.exists(one + "/cgroup.procs")]

class Pod:
    """A pod with one container, which runs a command."""
    def __init__(self, name, command, quota=None, user=None, told=True, variables={}):
        self.workload, self.command, self.quota, self.user, self.told, self.variables = name, command, quota, user, told, variables
        self.new()

    def new(self):
        """Another pod of the same workload."""
        self.uid, self.name = str(uuid.uuid4()), f"{self.workload}-7d9f8-{os.urandom(2).hex()}"
        self.start()

    def start(self):
        """Another container of the same pod."""
        self.id = os.urandom(32).hex()
        self.path = f"kubepods/burstable/pod{self.uid}/{self.id}"
        for mount in groups():
            os.makedirs(f"{mount}/{self.path}", exist_ok=True)
        for file, value in (("/sys/fs/cgroup/cpu/{}/cpu.cfs_quota_us", "{}"), ("/sys/fs/cgroup/{}/cpu.max", "{} 100000")):
            if self.quota and os.path.exists(file.format(self.path)):
                open(file.format(self.path), "w").write(value.format(self.quota))
        def enter():
            for mount in groups():
                open(f"{mount}/{self.path}/cgroup.procs", "w").write(str(os.getpid()))
            if self.user:
                os.setgroups([])
                os.setgid(self.user)
                os.setuid(self.user)
        self.process = subprocess.Popen(self.command, preexec_fn=enter, env={"PATH": os.environ["PATH"], **self.variables},
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")

    def end(self):
        self.process.kill()
        self.process.wait()
        for mount in groups():
            for folder in (self.path, os.path.dirname(self.path)):
                try: os.rmdir(f"{mount}/{folder}")
                except OSError: pass

    def item(self):
        return {"metadata": {"name": self.name, "namespace": "staged", "uid": self.uid, "labels": {"pod-template-hash": "7d9f8"},
                             "ownerReferences": [{"kind": "ReplicaSet", "name": f"{self.workload}-7d9f8", "controller": True}]},
                "status": {"containerStatuses": [{"name": "main", "image": "staged:1", "containerID": f"containerd://{self.id}"}]}}

class Kubelet:
    """Tells the names of pods as they are when it is asked."""
    def __init__(self):
        self.pods, self.asked = [], 0
        kubelet = self
        class Answer(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                kubelet.asked += 1
                body = json.dumps({"kind": "PodList", "items": [pod.item() for pod in kubelet.pods if pod.told]}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            def log_message(self, *_):
                pass
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{server.server_port}/pods"

def agent(kubelet, options, before=()):
    command = [*before, COMMAND, "node", "--listen", "127.0.0.1:0", "--name", "n1", "--kubelet", kubelet.url, *options]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    return child, re.search(r"http://[^/]*", child.stderr.readline()).group(0)

def get(url):
    return urllib.request.urlopen(url, timeout=20).read().decode()

def series(page):
    lines = [line for line in page.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}

def scraped(name):
    """The series with the labels that Prometheus adds."""
    bare, _, labels = name.partition("{")
    labels = labels.removesuffix("}")
    return f'{bare}{{{labels}{"," if labels else ""}node="n1",instance="i:9912",job="agent"}}'

def values(name, first, second, seconds, stale):
    """The series for two hours, a value a minute, from its values in two pages. The last page is of time 0."""
    if "_timestamp_seconds" in name:
        age = second - time.time()
        return f"{age:.3f}{'+0' if stale and 'count_timestamp' in name else '+60'}x130"
    if "_total" in name.split("{")[0]:
        rate = (second - first) / seconds * 60
        return f"{second}+{rate:.6f}x130"
    return f"{second}x130"

def fires(case, pages, seconds, wanted, stale=False):
    """Whether exactly these alerts fire after two hours."""
    first, second = map(series, pages)
    data = [{"series": scraped(name), "values": values(name, first.get(name, value), value, seconds, stale)} for name, value in second.items()]
    samples = [{"labels": f'{{alertname="{one}"}}', "value": 1} for one in wanted]
    test = {"rule_files": [RULES], "evaluation_interval": "1m", "tests": [{"interval": "1m", "input_series": data, "promql_expr_test": [
        {"expr": 'group by (alertname) (ALERTS{alertstate="firing"})', "eval_time": "2h", "exp_samples": samples}]}]}
    file = f"{FOLDER}/{case.replace(' ', '-')}.json"
    json.dump(test, open(file, "w"), indent=1)
    ran = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True)
    print(f"{'right' if ran.returncode == 0 else 'WRONG'}  {case}: {len(data)} series, fires {', '.join(wanted) or 'nothing'}", flush=True)
    if ran.returncode:
        print(ran.stdout[-600:], ran.stderr[-600:])
    return ran.returncode == 0

def worker(mib, threads):
    return [f"{FOLDER}/worker", str(mib), str(threads)]

def calm():
    return Pod("calm", worker(20, 2))

def arenas():
    return Pod("arenas", worker(300, 6), quota=50000)

def kept():
    return Pod("kept", [os.path.realpath(sys.executable), "-c", KEPT], variables={"PYTHONMALLOC": "malloc"})

def first_part(kubelet):
    alone = ["setpriv", "--bounding-set=-all,+sys_ptrace", "--inh-caps=-all"]
    cases = [
        ("ordinary pods", [calm], [], (), [], False),
        ("arenas by the host", [calm, arenas], [], (), ["AllocanaryArenasFollowHost"], False),
        ("the same with a setting", [calm, lambda: Pod("set", worker(300, 6), quota=50000, variables={"MALLOC_ARENA_MAX": "1"})], [], (), [], False),
        ("more kept than live", [calm, kept], [], (), ["AllocanaryOverheadMoreThanLive"], False),
        ("a right is missing", [calm, lambda: Pod("other", worker(20, 2), user=65534)], [], alone, ["AllocanaryNodeDenied"], False),
        ("a pod has no name", [calm, lambda: Pod("secret", worker(20, 2), told=False)], [], (), ["AllocanaryNodeNameless"], False),
        ("an agent that costs too much", [calm] * 40, ["--cpu-percent", "50", "--every", "1s"], (), ["AllocanaryNodeCostly"], False),
        ("an agent that does not count", [calm], [], (), ["AllocanaryNodeStale"], True),
    ]
    well = True
    for case, makers, options, before, wanted, stale in cases:
        kubelet.pods = [make() for make in makers]
        time.sleep(6)
        child, url = agent(kubelet, options or ["--every", "2s", "--cpu-percent", "10"], before)
        try:
            # The costly one is seen while it reads for the first time; the others when all is read.
            time.sleep(1 if "Costly" in str(wanted) else 40)
            begun, first = time.monotonic(), get(url + "/metrics")
            time.sleep(17)
            second = get(url + "/metrics")
            well &= fires(case, (first, second), time.monotonic() - begun, wanted, stale)
        finally:
            child.kill()
            child.wait()
            for pod in kubelet.pods:
                pod.end()
    return well

def scaled(text):
    """The rules with all their times divided."""
    units = {"s": 1, "m": 60, "h": 3600}
    short = lambda found: f"{found.group(1)}{max(1, int(found.group(2)) * units[found.group(3)] // SCALE)}s{found.group(4)}"
    return re.sub(r"(\[)(\d+)([smh])(\])", short, re.sub(r"(for: )(\d+)([smh])()", short, text))

def second_part(kubelet):
    open(f"{FOLDER}/rules.yaml", "w").write(scaled(open(RULES).read()))
    restarting = [Pod(f"restarting-{number}", worker(8, 2)) for number in range(4)]
    kubelet.pods = [calm(), arenas(), kept(), *restarting]
    time.sleep(6)
    child, url = agent(kubelet, ["--every", "5s", "--cpu-percent", "10"])
    config = {"global": {"scrape_interval": "5s", "evaluation_interval": "5s"}, "rule_files": [f"{FOLDER}/rules.yaml"],
              "scrape_configs": [{"job_name": "agent", "honor_labels": True, "static_configs": [{"targets": [url[7:]], "labels": {"node": "n1"}}]}]}
    json.dump(config, open(f"{FOLDER}/prometheus.yml", "w"))
    server = subprocess.Popen(["prometheus", f"--config.file={FOLDER}/prometheus.yml", f"--storage.tsdb.path={FOLDER}/tsdb", "--web.listen-address=127.0.0.1:7399"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    def ask(query):
        return json.loads(get("http://127.0.0.1:7399/api/v1/query?" + urllib.parse.urlencode({"query": query})))["data"]["result"]
    begun, turn, asked = time.monotonic(), 0, kubelet.asked
    right = wrong = nameless = 0
    ever = {(pod.uid, pod.name) for pod in kubelet.pods}
    fired = set()
    try:
        while (passed := time.monotonic() - begun) < SECONDS:
            time.sleep(5)
            if passed > 30 * (turn + 1):
                # A container starts again, or a pod is replaced, in turns.
                pod = restarting[turn % len(restarting)]
                pod.end()
                pod.new() if turn % 2 else pod.start()
                ever.add((pod.uid, pod.name))
                turn += 1
            for found in ask("count by (namespace, pod, container) (allocanary_resident_bytes)"):
                labels = found["metric"]
                pod = labels.get("pod", "")
                if labels.get("namespace") == "staged" and pod in {name for _, name in ever} and labels["container"] == "main":
                    right += 1
                elif pod in {uid for uid, _ in ever} or labels.get("namespace") == "staged" and any(labels["container"] == id[:12] for id in [one.id for one in kubelet.pods]):
                    nameless += 1
                elif pod:
                    wrong += 1
                    print("WRONG name:", labels)
            fired |= {one["metric"]["alertname"] + " of " + one["metric"].get("pod", "the node").split("-")[0] for one in ask('ALERTS{alertstate="firing"}')}
        refused = [rule["name"] for group in json.loads(get("http://127.0.0.1:7399/api/v1/rules"))["data"]["groups"] for rule in group["rules"] if rule["health"] != "ok"]
    finally:
        for one in (child, server):
            one.kill()
            one.wait()
        for pod in kubelet.pods:
            pod.end()
    wanted = {"AllocanaryArenasFollowHost of arenas", "AllocanaryOverheadMoreThanLive of kept"}
    print(f"prometheus, {SECONDS} s, {turn} restarts: {right} times a pod had its name, {nameless} times not yet, {wrong} times a wrong one; "
          f"the kubelet was asked {kubelet.asked - asked} times; fired: {', '.join(sorted(fired)) or 'nothing'}; failed rules: {refused or 'none'}")
    return fired == wanted and not wrong and not refused and right > 0

def main():
    subprocess.run(["cc", "-O1", "-pthread", os.path.join(HERE, "worker.c"), "-o", f"{FOLDER}/worker"], check=True)
    kubelet = Kubelet()
    well = "1" not in PART or first_part(kubelet)
    if "2" in PART:
        well &= second_part(kubelet)
    print(f"pages and rules: {FOLDER}" if not well else "all right")
    sys.exit(0 if well else 1)

main()
