#!/usr/bin/env bash
# How much memory do programs use under each version of each allocator? Builds the versions once, runs five programs under them, and
# prints a Markdown table of peaks (redis-server: resident when idle), in MiB. Then it prints what the rows prove: for each candidate the
# version that was read in the process, and how many rows have no error and no unproven setting. The table of docs/lab/programs.md comes from
# here:
#
#   cargo build --release --bins && examples/programs/versions.sh OUT [REPEATS]
#
# In the root of a clone of allocanary. Needs redis, jq, c++ and rustc; gperftools' library (Debian: libtcmalloc-minimal4) for its row.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
needs redis-server redis-benchmark jq c++ rustc
locate
out=${1:?wanted a new folder for the results}
repeats=${2:-5}
mkdir -p "$out/bin" && out=$(realpath "$out")
versions=(mimalloc@1.7.5 mimalloc@2.2.5 mimalloc@3.3.2 jemalloc@5.2.1 jemalloc@5.3.0 jemalloc@5.3.1 snmalloc@0.7.6 rpmalloc@1.4.3)
"$allocanary" build "${versions[@]}" >/dev/null
candidates=(system "${versions[@]}")
# A setting of each family. The process reads it back.
candidates+=(mimalloc@3.3.2:allow_thp=0 jemalloc@5.3.1:narenas=1)
! "$allocanary" list allocators | grep -q tcmalloc_minimal ||
    candidates+=(tcmalloc_minimal tcmalloc_minimal:aggressive_decommit=true)
c++ -O2 -pthread "$here/threads.cpp" -o "$out/bin/threads-cpp"
rustc -O "$here/threads.rs" -o "$out/bin/threads-rs"
seq 200000 | jq -c '{id: ., tags: ["a", "b"]}' | jq -sc . >"$out/rows.json"

of() { # TITLE NAME METRIC FLAGS AND PROGRAM
    local title=$1 name=$2 metric=$3
    shift 3
    "$allocanary" run --out-dir "$out/$name" --repeats "$repeats" --any-output --candidates "${candidates[@]}" "$@" >"$out/$name.txt" || true
    printf '| %s |' "$title"
    for candidate in "${candidates[@]}"; do
        "$allocanary" report "$out/$name" --format json |
            jq -r --arg candidate "$candidate" --arg metric "$metric" '
                .panels[0].candidates[] | select(.candidate == $candidate).points[0].metrics[$metric].median / 1048576 * 10 | round / 10' |
            awk '{ printf " %s |", $0 }'
    done
    echo
}

printf '| program |%s\n' "$(printf ' %s |' "${candidates[@]}")"
printf '|---|%s\n' "$(printf -- '--:|%.0s' "${candidates[@]}")"
of python3 python peak -- python3 -c "import json
rows = [json.dumps({'k%d' % i: list(range(i % 40))}) for i in range(100000)]
print(len([json.loads(row) for row in rows[::4]]))"
of jq jq peak --stdin "$out/rows.json" -- jq 'map(.tags) | length'
of 'C++, 32 threads' threads-cpp peak -- "$out/bin/threads-cpp"
of 'Rust, 32 threads' threads-rs peak -- "$out/bin/threads-rs"
of redis-server redis resident --program "$here/redis.toml"

printf '\n| candidate | version | rows | proven |\n|---|---|--:|--:|\n'
cat "$out"/*/samples.jsonl | jq -rs '
    map(select(.cell)) | group_by(.cell.candidate)[] |
    (map(select(.error == null and (.measured.unproven // {}) == {})) | length) as $proven |
    "| `\(.[0].cell.candidate)` | \(map(.measured.version // empty) | unique | join(", ")) | \(length) | \($proven) |"'
