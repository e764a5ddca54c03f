#!/bin/bash
# The table of the rows that measure.sh has written: medians over the rounds, MiB.
# "before" is what the service had at rest without the remedy: of a remedy that is carried out now the same process, of one at the start all
# untouched instances. "gave" is what it gave beyond what the twin gave back by itself in the same time. "none" is said where the result lies
# within the range of the untouched instances, which the service's first line has.
# Usage: examples/door/table.sh FILE...
set -u
cat "$@" | jq -rs '
    def median: sort | .[length / 2 | floor];
    def mib: if . == null then "" else . / 1048576 | if fabs < 99.95 then . * 10 | round / 10 else round end | tostring end;
    def line: "| " + join(" | ") + " |";
    (["service", "remedy", "when", "fresh", "before", "after", "gave", "forecast", "rounds"] | line),
    "|---|---|---|--:|--:|--:|--:|--:|--:|",
    (group_by(.service)[]
     | map(select(.remedy == "twin" or .when == "now") | .before) as $untouched
     | ([.[0].service, "(untouched)", "", (map(select(.remedy == "twin") | .fresh) | median | mib), ($untouched | median | mib),
         "\($untouched | min | mib) to \($untouched | max | mib)", "", "", "\($untouched | length) processes"] | line),
       (map(select(.remedy != "twin")) | group_by(.remedy) | map(
            .[0] as $one | map(select(.failed == "")) as $ran
            | (if $one.when == "now" then $ran | map(.before) else $untouched end | median) as $before
            | ($ran | map(.after) | median) as $after
            | (if $one.when == "now" then $ran | map(.before - .after - (.twin_before - .twin_after)) | median
               elif $ran == [] then null else $before - $after end) as $gave
            | ($one.when != "now" and $ran != [] and $after >= ($untouched | min) and $after <= ($untouched | max)) as $none
            | {$one, $ran, $before, $after, $gave, $none, all: length})
        | sort_by(-(.gave // -1e18))[]
        | [.one.service, "`\(.one.what)`", .one.when,
           if .ran == [] then "", "", "", "failed: \(.one.failed | gsub("[|]"; " ") | gsub("^ +"; "") | .[:150])", "", "0 of \(.all)"
           else "", (.before | mib), (.after | mib), "\(.gave | mib)\(if .none then " (none)" else "" end)",
             (if .ran[0].kind == "unknown" then "" else "\(.ran[0].kind) \(.ran | map(.forecast) | median | mib)" end), "\(.ran | length)" end]
        | line))'
