#!/usr/bin/env bash
# How long it takes to install the wheel of target/dist into a new environment and to have the first answer about a process; and how
# long `allocanary PID` takes then, as the median of 30.
#
#   dist/first-answer.sh
set -euo pipefail
cd "$(dirname "$0")/.."
wheel=$(ls "$PWD"/target/dist/allocanary-*_"$(uname -m)".whl)
work=$(mktemp -d)
sleep 1000 &
process=$!
trap 'kill $process; rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
began=${EPOCHREALTIME/./}
"$work/venv/bin/pip" install --quiet --no-index "$wheel"
"$work/venv/bin/allocanary" "$process" >/dev/null
echo "pip install and the first answer: $(((${EPOCHREALTIME/./} - began) / 1000)) ms"
for _ in $(seq 30); do
    began=${EPOCHREALTIME/./}
    "$work/venv/bin/allocanary" "$process" >/dev/null
    echo "$(((${EPOCHREALTIME/./} - began) / 100))"
done | sort -n | sed -n '15s/\(.*\)\(.\)/allocanary PID: \1.\2 ms, the median of 30/p'
