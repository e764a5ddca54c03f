#!/bin/bash
# Starts a service, gives it its burst, lets it rest, and prints the processes to look at. It ends with Ctrl-C, or after SECONDS.
# Usage: examples/door/up.sh SERVICE [SECONDS] [NAME=VALUE... FLAGS...]
set -u
. "$(dirname "$0")/lib.sh"
service=$1 seconds=${2:-3600}
shift $(($# > 1 ? 2 : 1))
service "$service"
prepare >"$work/prepare" 2>&1 || { cat "$work/prepare" >&2; exit 1; }
start 0 "$@"
choose 0
burst 1 >>"$at/log" 2>&1 || cat "$at/log" >&2
sleep "$rest"
look
sleep "$seconds" &
wait $!
