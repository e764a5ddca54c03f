#!/usr/bin/env python3
"""The memory of a profile's table, for docs/lab/profile.md: a program with a million stacks and samples that lie near fills it; one with few stacks
does not. Usage: examples/profile/memory.py [FOLDER of allocanary]. Needs a C compiler."""
import os
import re
import subprocess
import sys
import tempfile

built = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "target/release")
here = os.path.dirname(os.path.abspath(__file__))


def resident(pid):
    """KiB of the table, and of the preload's writable memory, in which the filter is."""
    table = data = 0
    with open(f"/proc/{pid}/smaps") as smaps, open(f"/proc/{pid}/mem", "rb") as memory:
        own = False
        for line in smaps:
            if found := re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ (\d+)\s*(.*)", line):
                begin, writable, path = int(found[1], 16), found[3].startswith("rw"), found[5]
                own = writable and (path.endswith("preload-profile") or (own and not path))
                is_table = False
                if writable and not path:
                    memory.seek(begin)
                    is_table = memory.read(8) == b"acnaprof"
            elif line.startswith("Rss:"):
                kib = int(line.split()[1])
                if is_table:
                    table += kib
                elif own:
                    data += kib
    return table, data


def run(program, mean):
    variables = {**os.environ, "LD_PRELOAD": f"{built}/preload-profile", "ALLOCANARY_PRELOAD": f"profile={mean}"}
    child = subprocess.Popen([program], env=variables, stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"ready\n"
    found = resident(child.pid)
    said = subprocess.run([f"{built}/allocanary", "who", str(child.pid), "--short"], capture_output=True, text=True)
    child.kill()
    child.wait()
    return found, said


with tempfile.TemporaryDirectory() as folder:
    for name in ("sites", "stacks"):
        # Without optimization for the stacks: two equal calls would become one.
        flags = ["-O2"] if name == "sites" else ["-O0"]
        subprocess.run(["cc", *flags, "-pthread", "-o", f"{folder}/{name}", f"{here}/{name}.c"], check=True)
    print("| program | mean distance | table, resident | preload's data, resident | who PID |")
    print("|---|--:|--:|--:|--:|")
    for name, program, mean in [("C, six sites", "sites", "512KiB"), ("C, a million stacks", "stacks", "512KiB"),
                                ("C, a million stacks", "stacks", "1KiB")]:
        (table, data), said = run(f"{folder}/{program}", mean)
        print(f"| {name} | {mean} | {table} KiB | {data} KiB | code {said.returncode} |", flush=True)
        if said.returncode:
            print(said.stderr)
