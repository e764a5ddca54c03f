#!/bin/sh
# The table of docs/heap.md: programs of six languages, each started here, taken apart, and ended.
# Usage: examples/heap/table.sh [PATH OF allocanary]. Needs jq; a program that is not installed is left out.
set -u
command=${1:-target/release/allocanary}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$(dirname "$0")/../.." || exit 2

row() { # NAME COMMAND...: starts it, waits two seconds, prints a row of the table.
    name=$1
    shift
    command -v "$1" >/dev/null || { echo "left out: $1 is not installed" >&2; return; }
    "$@" >/dev/null 2>&1 &
    pid=$!
    sleep "${WAIT:-3}"
    timeout 60 "$command" heap "$pid" --json >"$folder/reading" || echo "$name: not divided" >&2
    kill "$pid"
    wait "$pid" 2>/dev/null
    jq -r --arg name "$name" '
        def mib: . / 1048576 * 10 | round / 10 | tostring;
        def part(p): [.heaps[].parts[p]] | add // 0 | mib;
        def area(s): [.areas[] | select(.sort == s) | .resident] | add // 0 | mib;
        "| \($name) | \(.resident | mib) | \(part("live")) | \(part("cached")) | \(part("free")) | \(part("kept")) | " +
        "\(area("runtime")) | \(area("program")) | \(area("unknown")) | " +
        "\([.heaps[] | "\(.allocator) \(.version): \(.sure)"] | join(", ")) |"' "$folder/reading"
}

cat >"$folder/J.java" <<'JAVA'
public class J {
    static java.util.ArrayList<byte[]> kept = new java.util.ArrayList<>();
    public static void main(String[] a) throws Exception {
        for (int i = 0; i < 50000; i++) kept.add(new byte[1000]);
        Thread.sleep(1000000);
    }
}
JAVA
cat >"$folder/g.go" <<'GO'
package main

import "time"

var kept [][]byte

func main() {
	for i := 0; i < 20000; i++ {
		kept = append(kept, make([]byte, 4096))
		kept[i][1] = 1
	}
	time.Sleep(1000 * time.Second)
}
GO
echo '| program | resident | live | cached | free in used pages | whole free pages | runtime | program | not known | how sure |'
echo '|---|--:|--:|--:|--:|--:|--:|--:|--:|---|'
python='
a = [str(i) * 3 for i in range(300000)]
b = [bytes(1000 + i % 500) for i in range(60000)]
del b[::2]
import time
time.sleep(1000)'
row 'python3, half of its larger objects freed' "$(python3 -c 'import sys; print(sys.executable)')" -c "$python"
row 'redis-server, empty' redis-server --port 0 --unixsocket "$folder/socket" --save '' --dir "$folder"
row 'node, 300,000 objects' node -e 'let a = []; for (let i = 0; i < 3e5; i++) a.push({ i, s: "x" + i }); setTimeout(() => a, 1e7)'
(cd "$folder" && javac J.java 2>/dev/null)
row 'java, 50 MB of arrays' java -Xmx256m -cp "$folder" J
(cd "$folder" && go build -o g g.go 2>/dev/null)
[ -x "$folder/g" ] && row 'Go, 80 MB of slices' "$folder/g"
