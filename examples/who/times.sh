#!/usr/bin/env bash
# When does a block live? A service holds 48 MiB until SIGTERM, with 1, 8 and 400 slow and busy threads. The script prints in MiB what
# `who` says of the service's one site when idle, at the peak and at a time, and what a replay says is live when idle. Each should be 48.0
# within 2 %.
#
#   examples/who/times.sh [FOLDER]      default: a new folder, removed at the end; needs cc and jq
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
needs cc jq
locate
out=${1:-$work}
mkdir -p "$out"
cc -O1 -pthread "$here/held.c" -o "$out/held"

printf '%7s  %-5s  %6s  %6s  %6s  %6s\n' threads kind idle peak 2s replay
for kind in slow busy; do
    for threads in 1 8 400; do
        folder=$out/$threads-$kind
        rm -rf "$folder"
        "$allocanary" record -o "$folder" --ready line:ready --load 'sleep 1' --settle 1s -- "$out/held" "$threads" "$kind" >/dev/null 2>&1
        trace=$(ls "$folder"/held-*.trace)
        row=()
        for at in idle peak 2s; do
            held=$("$allocanary" who "$trace" --at "$at" --json | jq '[.sites[] | select(.name == "hold").requested_bytes] | add // 0')
            row+=("$(mib "$held" 2)")
        done
        "$allocanary" replay "$trace" --candidates system --repeats 1 --out-dir "$folder/replay" >/dev/null 2>&1
        held=$(jq -s '.[0].measured | (.moments | index("idle")) as $idle | .readings.allocator_allocated_bytes[$idle]' "$folder/replay/samples.jsonl")
        row+=("$(mib "$held" 2)")
        printf '%7s  %-5s  %6s  %6s  %6s  %6s\n' "$threads" "$kind" "${row[@]}"
    done
done
