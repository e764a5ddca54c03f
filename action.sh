#!/usr/bin/env bash
# What action.yml does, and any other CI can: measures $OLD and $NEW on this machine, and compares them.
# In: OLD, NEW (command lines), GATE, REPEATS, FLAGS, UNDECIDED. Out: the folder allocanary-gate, an exit code; on GitHub
# annotations and a job summary, elsewhere tables.
set -euo pipefail
: "${OLD:?wanted the command line of the program as it was}" "${NEW:?wanted the command line of the program as it is now}"
results=allocanary-gate
rm -rf "$results"
mkdir "$results"
# Words are split as a shell does it, quotes included.
measure() { # folder, command line
    eval "allocanary run --name program --candidates own --repeats ${REPEATS:-20} ${FLAGS:-} --out-dir '$results/$1' -- $2"
}
measure old "$OLD"
measure new "$NEW"
gates=()
for gate in ${GATE:-peak_resident=5%}; do
    gates+=(--gate "$gate")
done
# On GitHub: annotations, and the summary of the job. Elsewhere: tables.
format=table
if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
    format=github
fi
code=0
allocanary compare "$results/old" "$results/new" "${gates[@]}" --undecided "${UNDECIDED:-pass}" --format "$format" |
    tee "$results/gate.txt" || code=$?
if [ -n "${GITHUB_OUTPUT:-}" ]; then
    echo "results=$results" >> "$GITHUB_OUTPUT"
fi
exit "$code"
