#!/bin/bash
# The table of the rows that measure.sh has written: medians over the rounds, MiB.
# "before" is the memory of the idle service without the remedy: for a remedy that is carried out now, of the same process; for a remedy
# at the start, of all untouched instances. "gave" is what the remedy gave beyond what the twin gave back by itself in the same time. "not
# shown" means that the instances with the remedy are not all below, or all above, all untouched ones. The service's first line has the
# range of the untouched ones. A forecast is shown if each round has one.
# Usage: examples/door/table.sh FILE...
set -u
cat "$@" | jq -rs '
    def median: sort | (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2;
    def mib: if . == null then "" else . / 1048576 | if fabs < 99.95 then . * 10 | round / 10 else round end | tostring end;
    def line: "| " + join(" | ") + " |";
    (["service", "remedy", "when", "fresh", "before", "after", "gave", "forecast", "rounds"] | line),
    "|---|---|---|--:|--:|--:|--:|--:|--:|",
    (group_by(.service)[]
     | map(select(.remedy == "twin" or .when == "now") | .before) as $untouched
     | ([.[0].service, "(untouched)", "", (map(select(.remedy == "twin") | .fresh) | median | mib), ($untouched | median | mib),
         "\($untouched | min | mib) to \($untouched | max | mib)", "", "", "\($untouched | length) processes"] | line),
       (map(select(.remedy != "twin")) | group_by(.remedy) | map(
            .[-1] as $one | map(select(.failed == "")) as $ran
            | (if $ran == [] then . else $ran end | map(select(.kind != "unknown"))) as $foreseen
            | (if $ran == [] then null elif $one.when == "now" then $ran | map(.before) | median else $untouched | median end) as $before
            | ($ran | if . == [] then null else map(.after) | median end) as $after
            | (if $ran == [] then null elif $one.when == "now" then $ran | map(.before - .after - (.twin_before - .twin_after)) | median
               else $before - $after end) as $gave
            | ($one.when != "now" and ($ran | any(.after >= ($untouched | min)) and any(.after <= ($untouched | max)))) as $none
            | {$one, $ran, $before, $after, $gave, $none, all: length,
               foreseen: (if ($foreseen | length) < ([$ran, .] | map(length) | map(select(. > 0)) | min) then "" else "\($foreseen[-1].kind) \($foreseen | map(.forecast) | median | mib)" end)})
        | sort_by(-(.gave // -1e18))[]
        | [.one.service, "`\(.one.what)`", .one.when,
           if .ran == [] then "", "", "", "failed: \(.one.failed | gsub("[|]"; " ") | gsub("^ +"; "") | .[:150])", .foreseen, "0 of \(.all)"
           else "", (.before | mib), (.after | mib), "\(.gave | mib)\(if .none then " (not shown)" else "" end)",
             .foreseen, "\(.ran | length)" end]
        | line))'
