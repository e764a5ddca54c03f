#!/usr/bin/env python3
"""Whether connections that say nothing keep probes and scrapes out: the agent of a node, and kube_canary.

Usage: examples/fleet/crowd.py [COMMAND [KUBE_CANARY [CONNECTIONS [TIMES]]]]   (10,000 connections and 100 times by default)

Two servers of each kind run at the same time. CONNECTIONS clients come to the first one: half of them send nothing, half a byte of a head each second.
One that the server has closed comes back after ten seconds. Each server is asked in turn, TIMES for each path. Exit code 1 if the 99th percentile
with the crowd is more than three times that without, or if a probe takes five seconds.
"""
import multiprocessing, os, re, resource, select, socket, subprocess, sys, time

HERE = os.path.dirname(os.path.realpath(__file__))
RELEASE = os.path.join(HERE, "../../target/release")
COMMAND = sys.argv[1] if len(sys.argv) > 1 else os.path.join(RELEASE, "allocanary")
CANARY = sys.argv[2] if len(sys.argv) > 2 else os.path.join(RELEASE, "kube_canary")
CONNECTIONS = int(sys.argv[3]) if len(sys.argv) > 3 else 10_000
TIMES = int(sys.argv[4]) if len(sys.argv) > 4 else 100
BACK_AFTER = 10

def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]

def start(kind):
    """A server, and its port."""
    port = free_port()
    if kind == "agent":
        command = [COMMAND, "node", "--listen", f"127.0.0.1:{port}", "--name", "n1"]
    else:
        command = [CANARY, "--listen", f"127.0.0.1:{port}", "--udp-port", str(free_port()), "--protocol", "udp", "--node", "n1", "--peer", "127.0.0.9=b"]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(300):
        try:
            ask(port, "/healthz")
            return child, port
        except OSError:
            time.sleep(0.1)
    sys.exit(f"{command} does not answer")

def ask(port, path):
    """The seconds that an answer takes."""
    begun = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), timeout=30) as one:
        one.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        first = one.recv(65536)
        while one.recv(65536):
            pass
    if not first.startswith(b"HTTP/1.1 200") and path != "/healthz":
        sys.exit(f"{path}: {first[:200]}")
    return time.monotonic() - begun

def crowd(port, here):
    """Clients that never stop. Each has a source address by its number, since one address has too few ports for all that come back."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (CONNECTIONS + 200, max(CONNECTIONS + 200, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
    poll, open_, absent = select.epoll(), {}, [(0, number) for number in range(CONNECTIONS)]
    while True:
        now = time.monotonic()
        come, absent = [n for at, n in absent if at <= now], [(at, n) for at, n in absent if at > now]
        for number in come:
            one = socket.socket()
            one.setblocking(False)
            one.bind((f"127.0.{1 + number % 200}.1", 0))
            one.connect_ex(("127.0.0.1", port))
            open_[one.fileno()] = (one, number)
            poll.register(one, select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR)
        if not any(at == 0 for at, _ in absent):
            here.set()
        until = time.monotonic() + 1
        while time.monotonic() < until:
            for fileno, _ in poll.poll(max(0.0, until - time.monotonic())):
                one, number = open_.pop(fileno)
                poll.unregister(fileno)
                one.close()
                absent.append((time.monotonic() + BACK_AFTER, number))
        for one, number in list(open_.values()):
            if number % 2:
                try:
                    one.send(b"G")
                except OSError:
                    pass

def at(times, share):
    return sorted(times)[min(len(times) - 1, int(len(times) * share))] * 1000

def main():
    is_well = True
    print(f"{'server':12} {'path':9} {'without: p50':>13} {'p99':>8} {'with: p50':>10} {'p99':>8} ms {'ratio of p99':>13}")
    for kind in ("agent", "kube_canary"):
        (crowded, there), (calm, alone) = start(kind), start(kind)
        here = multiprocessing.Event()
        clients = multiprocessing.Process(target=crowd, args=(there, here), daemon=True)
        clients.start()
        try:
            here.wait(60)
            time.sleep(2)
            for path in ("/healthz", "/metrics"):
                pairs = [(ask(alone, path), ask(there, path)) for _ in range(TIMES)]
                without, beside = [one for one, _ in pairs], [one for _, one in pairs]
                ratio = at(beside, 0.99) / at(without, 0.99)
                print(f"{kind:12} {path:9} {at(without, .5):13.2f} {at(without, .99):8.2f} {at(beside, .5):10.2f} {at(beside, .99):8.2f}    {ratio:13.2f}", flush=True)
                is_well &= ratio <= 3 and max(beside) < 5
            descriptors = len(os.listdir(f"/proc/{crowded.pid}/fd"))
            resident = re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{crowded.pid}/status").read()).group(1)
            print(f"{kind:12} with the crowd: {descriptors} descriptors, {int(resident) / 1024:.1f} MiB resident")
        finally:
            clients.kill()
            for child in (crowded, calm):
                child.terminate()
                child.wait()
    sys.exit(0 if is_well else 1)

if __name__ == "__main__":
    main()
