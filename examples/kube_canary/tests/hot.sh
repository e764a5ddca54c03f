#!/usr/bin/env bash
# Which functions a running canary needs, as an order for the linker. In: a static binary with its symbols. Out: on standard
# output, a linker script that puts them together (deploy/hot.ld).
#
#   examples/kube_canary/tests/hot.sh BINARY >examples/kube_canary/deploy/hot.ld
#
# Runs the canary in valgrind from the end of its start on, through probes and scrapes, and lists what was called. Needs
# valgrind, curl, nm and the static libc that the binary was linked with. Worth a run when footprint.sh shows that memory grew.
set -euo pipefail

[ $# -eq 1 ] || { sed -n '2,/^set -e/ s/^# \{0,1\}//p' "$0" >&2; exit 2; }
work=$(mktemp -d)
canary=
trap '[ -z "$canary" ] || kill "$canary" 2>/dev/null || true; rm -rf "$work"' EXIT
for last in 1 2 3 4 5 6 7 8; do echo "127.0.1.$last node-$last"; done >"$work/peers"
port=$((20000 + RANDOM % 10000))
valgrind --tool=callgrind --demangle=no --instr-atstart=no --callgrind-out-file="$work/calls" \
    "$1" --peers-file "$work/peers" --interval 300ms --protocol icmp --listen "127.0.0.1:$port" --udp-port $((port + 1)) >&2 &
canary=$!
until curl -s -o /dev/null "http://127.0.0.1:$port/healthz"; do sleep 0.1; done
# Before it tidies up, which is two seconds after its start.
callgrind_control -i on "$canary" >&2
sleep 10
for page in metrics healthz readyz metrics; do
    curl -sSf --compressed -o /dev/null "http://127.0.0.1:$port/$page"
    curl -sSf -H 'Accept: application/openmetrics-text;version=1.0.0' --compressed -o /dev/null "http://127.0.0.1:$port/$page"
done
sleep 3
# What the end takes is not wanted.
callgrind_control -i off "$canary" >&2
kill "$canary"
wait "$canary" || true
canary=
sed -nE "s/^c?fn=\([0-9]+\) //p" "$work/calls" | sed -E "s/'[0-9]+$//" | sort -u >"$work/functions"
libc=$(cc -print-file-name=libc.a)
# The C library has a section for an object, not for a function; each processor has its own way to copy.
nm -A --defined-only "$libc" 2>/dev/null | awk '$(NF - 1) ~ /^[TtWi]$/ { split($1, at, ":"); print $NF, at[2] }' | sort -u >"$work/objects"
{
    sed -E 's/@.*//' "$work/functions" | awk 'NR == FNR { wanted[$1]; next } $1 in wanted { print $2 }' - "$work/objects"
    nm -A "$libc" 2>/dev/null | sed -nE 's/^[^:]*:((memmove|memset|memcmp|memchr|strlen|strchr|strchrnul)-(evex|avx512|avx)[a-z-]*\.o):.*/\1/p'
} | sort -u >"$work/wanted"
cat <<'HEAD'
/* The order of the canary's text: what runs with every probe and every scrape lies together.

   A page of a file that is touched brings its neighbours into memory, 16 at once. What a running canary needs is half a
   megabyte of ten; scattered over all of it, it kept three megabytes resident. A name that is not there any more does
   nothing but leave its function where the linker puts it.

   Made by examples/kube_canary/tests/hot.sh; for lld or GNU ld: -T this file. */
SECTIONS {
  .text.hot : {
HEAD
# Without what changes with each compiler: hashes of functions, of crates, and of the parts of a crate.
grep -E '^_(ZN|R)' "$work/functions" |
    sed -E 's/\.llvm\.[0-9]+$//; s/17h[0-9a-f]{16}E$/17h*/; s/Cs[A-Za-z0-9]+_/Cs*_/g; s/^(_R.*)$/\1*/' | sort -u |
    sed 's/.*/    *(.text.& .text.unlikely.&)/'
sed 's/.*/    *libc.a:&(.text .text.*)/' "$work/wanted"
printf '    *libm*.a:s_trunc*.o(.text .text.*)\n  }\n} INSERT BEFORE .text;\n'
