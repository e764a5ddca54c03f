#!/usr/bin/env python3
"""Makes the pictures of README.md and of the guide again, each a part of a page of the command, cut at the end of that part.

    docs/pictures/make.py reading PAGE.html     of `allocanary PID --output PAGE.html`: the answer
    docs/pictures/make.py threads PAGE.html     of `allocanary report STUDY --output PAGE.html`: resident memory by threads
    docs/pictures/make.py map PAGE.html         of `allocanary heap PID --output PAGE.html`: the heap by address
    docs/pictures/make.py trace PAGE.html       of `allocanary report TRACE --output PAGE.html`: live bytes and resident memory
    docs/pictures/make.py contents PAGE.html    of `allocanary heap PID --contents --output PAGE.html`: who holds which kinds
    docs/pictures/make.py programs PAGE.html    of report.html of `allocanary run`: the peak under each candidate
    docs/pictures/make.py study PAGE.html       of report.html of `allocanary study` with threads of one number: resident memory
    docs/pictures/make.py who PAGE.html         of `allocanary report TRACE --output PAGE.html`: live bytes by site
    docs/pictures/make.py fleet PAGE.html       of `allocanary fleet node.json --output PAGE.html`: workloads by part
    docs/pictures/make.py tuning PAGE.html      of report.html of `allocanary tune`: memory against time of the finalists

reading.png: the process of `examples/door/up.sh cpp_arenas`. threads.png: the study of `allocanary study`. trace.png: the trace of
redis-server of docs/who.md. map.png: the first example of docs/heap.md. contents.png: that of docs/contents.md. programs.png and
tuning.png: `run` and `tune` of examples/programs/rows.py. study.png: the study of docs/studies.md. who.png: the trace of redis-server of
docs/who.md. fleet.png: `examples/fleet/shop.py COMMAND 60 --output PAGE.html`. Needs chromium.
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

# What is kept of a page, and the width of the picture.
PARTS = {
    "reading": ([r"<header>.*?</section>"], 820),
    "threads": ([r'<ol class="legend.*?</ol>', r"<figure><h3>Resident memory when idle, by threads</h3>.*?</figure>"], 720),
    "trace": ([r'<ol class="legend[^>]*>(?:<li>.*?</li>){2}', r"<figure><h3>Live bytes and resident memory over time</h3>.*?</figure>"], 720),
    "programs": ([r"<figure><h3>peak_resident: most resident memory at any time until idle</h3>.*?</figure>"], 720),
    "study": ([r"<figure><h3>Resident memory when idle[^<]*</h3>.*?</figure>"], 720),
    "tuning": ([r"<figure><h3>Memory against time</h3>.*?</figure>"], 720),
    "who": ([r'<ol class="legend" aria-label="Sites">.*?</ol>', r"<figure><h3>Live bytes of the largest sites over time</h3>.*?</figure>"], 720),
    "fleet": ([r"<figure><h3>Resident memory of each workload, by part</h3>.*?</figure>", r'(?<=</figure></div>)<p><svg class="key".*?</p>'], 720),
    "map": ([r'<ul class="legend" aria-label="Parts">.*?</ul>', r"<figure><h3>Memory of \w+ by part</h3>.*?</figure>"], 720),
    "contents": ([r'<ul class="legend.*?</ul>', r"<figure><h3>What holds the memory, by kind</h3>.*?</figure>"], 720),
}


def chromium(page, width, height, *flags):
    always = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=1"]
    return subprocess.run([*always, f"--window-size={width},{height}", *flags, page.as_uri()], capture_output=True, text=True, check=True).stdout


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in PARTS:
        sys.exit(__doc__)
    name, text = sys.argv[1], Path(sys.argv[2]).read_text()
    patterns, width = PARTS[name]
    found = [re.search(pattern, text, re.S) for pattern in patterns]
    if not all(found):
        sys.exit(f"make.py: {sys.argv[2]}: wanted {patterns}, found not all of them")
    styles = "".join(re.findall(r"<style>.*?</style>", text, re.S))
    # `</ol>`: of a legend, the trace's picture has only the first marks.
    body = "</ol>\n".join(part[0] for part in found)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "part.html")
        # The height of the part, which only the browser knows.
        measured = "<script>document.title = Math.ceil(document.body.getBoundingClientRect().height)</script>"
        page.write_text(f'<!DOCTYPE html><meta charset="utf-8">{styles}<style>body {{ padding-bottom: 24px }}</style><body>{body}{measured}')
        height = int(re.search(r"<title>(\d+)</title>", chromium(page, width, 400, "--dump-dom"))[1])
        out = Path(__file__).resolve().parent / f"{name}.png"
        chromium(page, width, height, f"--screenshot={out}")
    print(f"{out}: {width} x {height}")


main()
