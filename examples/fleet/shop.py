#!/usr/bin/env python3
"""The output in docs/fleet.md: `allocanary fleet` and the commands of `allocanary try`, for a small staged shop.

Usage: examples/fleet/shop.py [COMMAND [SECONDS [FLAGS of fleet]]]   (as root, with control groups that may be written)

Three deployments run in control groups as a kubelet names them, and a fake kubelet tells their names: `web` is three replicas of a
Python service with eight threads, `cache` is a redis in which nine of ten keys were deleted, and `api` is a Java service. After SECONDS (60)
the agent reads them once. It sees only these processes and this script, in a PID namespace.
"""
import importlib.util, os, socket, subprocess, sys, time

HERE = os.path.dirname(os.path.abspath(__file__))
if "ALONE" not in os.environ:
    os.environ["ALONE"] = "1"
    os.execvp("unshare", ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, os.path.abspath(__file__), *sys.argv[1:]])
sys.path.insert(0, HERE)
import truth
spec = importlib.util.spec_from_file_location("trial", os.path.join(HERE, "try.py"))
trial = importlib.util.module_from_spec(spec)
spec.loader.exec_module(trial)

SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 60

def forget(port):
    """Fills a redis and deletes nine of ten keys."""
    truth.load(port, time.time() + 30, 30000)
    with socket.create_connection(("127.0.0.1", port), 2) as one:
        for number in range(30000):
            if number % 10:
                key = f"k{number}"
                one.sendall(f"*2\r\n$3\r\nDEL\r\n${len(key)}\r\n{key}\r\n".encode())
                one.recv(64)

def main():
    truth.write_files()
    everywhere = truth.programs()
    kinds = {"web": ([trial.PYTHON, "-c", trial.PYTHON_THREADS], "", trial.MALLOC, "glibc"), "cache": everywhere["redis"], "api": everywhere["java"]}
    all_ = []
    try:
        for number, name in enumerate(["web", "web", "web", "cache", "api"]):
            one = truth.Program(f"{name}-{number}", 3 * number, *kinds[name])
            one.workload = name
            all_.append(one)
        time.sleep(5)
        forget(7391)
        url = truth.kubelet(all_, "shop", lambda one: one.workload)
        time.sleep(SECONDS)
        node = os.path.join(truth.FOLDER, "node.json")
        with open(node, "w") as file:
            subprocess.run([truth.COMMAND, "node", "--once", "--json", "--name", "node-1", "--kubelet", url], stdout=file, check=True)
        subprocess.run([truth.COMMAND, "fleet", node, "--price", "3.50", *sys.argv[3:]])
        subprocess.run([truth.COMMAND, "try", "shop/deployment/web", "--env", "MALLOC_ARENA_MAX=2", node])
    finally:
        for one in all_:
            one.end()

if __name__ == "__main__":
    main()
