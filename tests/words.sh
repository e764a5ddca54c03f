#!/usr/bin/env bash
# Fails if README.md has more than 1,000 words, a page of the guide (docs/*.md) more than 1,800, or the guide more than 25,000. Words are
# those of `wc -w`: tables and blocks of code count. docs/lab has no limit.
set -euo pipefail
cd "$(dirname "$0")/.."
wc -w README.md docs/*.md | sort -n | awk '
    $2 == "total" { next }
    { limit = $2 == "README.md" ? 1000 : 1800; long = $1 > limit; bad += long
      printf "%7d  %s%s\n", $1, $2, long ? "  (at most " limit ")" : ""
      if ($2 != "README.md") guide += $1 }
    END { long = guide > 25000; bad += long
          printf "%7d  docs/*.md together%s\n", guide, long ? "  (at most 25000)" : ""; exit bad > 0 }'
