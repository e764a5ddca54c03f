#!/usr/bin/env python3
"""Each query of the dashboard and each rule, answered by a real Prometheus that scrapes a real agent.

Usage: examples/fleet/dashboard.py [COMMAND]   (prometheus on PATH)

Prints how many series each query has. Exit code 1 if one is refused, if a rule fails, or if the memory of no process has become a row of a
panel. Queries of what is wrong (denied processes, arenas by the host) may have none.
"""
import json, os, subprocess, sys, tempfile, time, urllib.error, urllib.parse, urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
COMMAND = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "../../target/release/allocanary")
SHIPPED = os.path.join(HERE, "../../deploy/node/monitoring")
MAY_BE_EMPTY = ("arenas=\"host\"", "node_walks_total", "reclaimable_bytes", "age_seconds", "free_pages|lazy_free")

def get(url):
    return json.load(urllib.request.urlopen(url, timeout=20))

def main():
    with tempfile.TemporaryDirectory() as folder:
        agent = subprocess.Popen([COMMAND, "node", "--listen", "127.0.0.1:7397", "--cpu-percent", "20", "--every", "2s"], stderr=subprocess.DEVNULL)
        config = {"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": [os.path.realpath(f"{SHIPPED}/rules.yaml")],
                  "scrape_configs": [{"job_name": "agent", "honor_labels": True, "static_configs": [{"targets": ["127.0.0.1:7397"], "labels": {"node": "n1"}}]}]}
        file = os.path.join(folder, "prometheus.yml")
        open(file, "w").write(json.dumps(config))
        server = subprocess.Popen(["prometheus", f"--config.file={file}", f"--storage.tsdb.path={folder}/tsdb", "--web.listen-address=127.0.0.1:7398"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            base, failed = "http://127.0.0.1:7398/api/v1", False
            # Until a heap was read and the rules have seen it, for two minutes at most.
            for _ in range(60):
                time.sleep(2)
                try:
                    if get(f"{base}/query?query=allocanary:live_bytes:container")["data"]["result"]:
                        break
                except OSError:
                    pass
            time.sleep(10)
            target = get(f"{base}/targets")["data"]["activeTargets"][0]
            print(f"scrape: {target['health']}, {float(target['lastScrapeDuration']) * 1000:.1f} ms")
            failed |= target["health"] != "up"
            for panel in json.load(open(f"{SHIPPED}/dashboard.json"))["panels"]:
                for one in panel["targets"]:
                    query = one["expr"].replace("$namespace", ".*").replace("$workload", ".*")
                    try:
                        found = len(get(f"{base}/query?" + urllib.parse.urlencode({"query": query}))["data"]["result"])
                    except urllib.error.HTTPError as error:
                        print(f"REFUSED {panel['title']}: {error.read().decode()}")
                        failed = True
                        continue
                    print(f"{found:5} series  {panel['title']}")
                    if not found and not any(word in query for word in MAY_BE_EMPTY):
                        print(f"  EMPTY: {query}")
                        failed = True
            for group in get(f"{base}/rules")["data"]["groups"]:
                for rule in group["rules"]:
                    if rule["health"] != "ok":
                        print(f"FAILED rule {rule['name']}: {rule.get('lastError')}")
                        failed = True
                print(f"{len(group['rules'])} rules of {group['name']}: evaluated in {group['evaluationTime'] * 1000:.1f} ms")
        finally:
            for one in (agent, server):
                one.kill()
                one.wait()
    sys.exit(1 if failed else 0)

main()
