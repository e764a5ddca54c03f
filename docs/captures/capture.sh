#!/bin/sh
# The last screen of `run`, `tune` and `compare` on a terminal of 80 columns and 24 lines. docs/answers.md shows those that it has a marker for.
#
#   docs/captures/capture.sh [COMMAND]      from the root of the sources; COMMAND is target/release/allocanary by default
#
# Needs tmux and python3. Writes a screen into docs/answers.md, below its marker. Fails if an answer or a line to paste is not on its
# screen.
set -eu
command=$(realpath "${1:-target/release/allocanary}")
page=$(realpath docs/answers.md)
# A fixed place, so that the screens show no path of this machine.
folder=/tmp/allocanary
mkdir "$folder"
trap 'cd /; tmux -L allocanary-captures kill-server 2>/dev/null || true; rm -rf "$folder"' EXIT
mkdir "$folder/bin"
here=$(dirname "$command")
cp "$command" "$here"/cell-system "$here"/cell-jemalloc "$here"/cell-mimalloc "$here"/preload-* "$folder/bin/"
rm -f "$folder"/bin/*.d
cd "$folder"
# Eight threads that parse and keep rows for a moment: each has an arena of glibc's.
cat >rows.py <<'PYTHON'
import json
from concurrent.futures import ThreadPoolExecutor

def parse(seed):
    rows = json.loads(json.dumps([{f"k{i}": "x" * ((i * seed) % 4000)} for i in range(1500)]))
    return len(rows)

with ThreadPoolExecutor(8) as pool:
    print(sum(pool.map(parse, range(1, 33))))
PYTHON

# NAME LINE WANTED...: runs the line in a terminal, and keeps its last screen.
capture() {
    name=$1 line=$2
    shift 2
    tmux -L allocanary-captures new-session -d -x 80 -y 24 -s "$name" \
        "PATH=$folder/bin:\$PATH PS1='\$ ' TERM=screen LC_ALL=C.UTF-8 exec sh"
    tmux -L allocanary-captures send-keys -t "$name" "$line; touch $name.ended" Enter
    until [ -e "$name.ended" ]; do sleep 0.2; done
    sleep 0.5
    tmux -L allocanary-captures capture-pane -p -t "$name" | sed -e 's/ *$//' >"$name.txt"
    tmux -L allocanary-captures kill-session -t "$name"
    for wanted; do
        grep -q -- "$wanted" "$name.txt" || { cat "$name.txt"; echo "capture.sh: $name: not on the last screen: $wanted" >&2; exit 1; }
    done
    python3 - "$page" "$name" "$name.txt" <<'PYTHON'
import re, sys
page, name, screen = sys.argv[1:]
text, shown = open(page).read(), open(screen).read().strip("\n")
marker = f"<!-- capture {name} -->\n"
pattern = re.compile(re.escape(marker) + r"```text\n(?:(?!```).*\n)*```\n")
if not pattern.search(text):
    print(f"{name}: the screen is as wanted; {page} has no marker for it")
    sys.exit()
open(page, "w").write(pattern.sub(lambda _: f"{marker}```text\n{shown}\n```\n", text))
PYTHON
}

capture run "allocanary run --out-dir run-1 -- python3 rows.py" "^Answer" "Dockerfile" "shell here"
capture tune "allocanary tune --out-dir tune-1 -- python3 rows.py" "^Answer" 
PATH=$folder/bin:$PATH
allocanary run --repeats 8 --candidates own --out-dir main -- python3 rows.py >/dev/null 2>&1
allocanary run --repeats 8 --candidates own --out-dir branch -- python3 rows.py >/dev/null 2>&1
capture compare "allocanary compare main branch --gate peak_resident=10%" "^Answer" "^gate passed: peak_resident"
