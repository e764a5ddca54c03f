#!/usr/bin/env bash
# Does `who` agree with DHAT and heaptrack? Twelve of Debian's programs are recorded once, and run once under each of the two. For each
# program it prints how far our most live bytes differ from DHAT's, and the five sites that have the most live bytes at that time
# according to heaptrack, with our figures. DHAT cannot judge sites: a block that `realloc` has grown stays with the function that made
# it. A site here is the first function outside of the C library whose name is not one of the allocator's. All functions of a file that
# have no name are one site, as in heaptrack.
#
#   examples/who/judges.sh [FOLDER OF allocanary AND ITS preloads] [PROGRAM...]
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/judge.sh"
needs valgrind heaptrack heaptrack_print jq perl ruby lua5.4 gawk xmllint bc xz php tclsh m4 cc c++filt
locate "${1:-}"
only=("${@:2}")
cd "$work"
# Fixes the hash seeds of programs, so that three runs allocate the same.
export PERL_HASH_SEED=0 RUBYOPT=--disable-gems LC_ALL=C

jq -n -r '"<a>" + ([range(20000) | "<b id=\"\(.)\">text \(.)</b>"] | add) + "</a>"' >in.xml
jq -n -r 'range(60000) | "\(. * 7919 % 60000) word\(.) \(. % 97)"' >in.txt
{ echo '#include <stdio.h>'; echo '#include <stdlib.h>'; for at in $(seq 800); do
    echo "int f$at(int a) { int x[9]; for (int i = 0; i < 9; i++) x[i] = a * i + $at; return printf(\"%d\", x[a % 9]); }"; done; } >in.c
# The compiler itself, which `cc` starts as a separate process.
read -r -a cc1 < <(cc -### -O1 -c in.c -o in.o 2>&1 | grep cc1 | tr -d '"')
for at in $(seq "${#cc1[@]}"); do case ${cc1[at - 1]} in -o) cc1[at]=in.s ;; esac; done

row() { # NAME PROGRAM...
    local name=$1
    shift
    wanted "$name" "${only[@]}" || return 0
    record "$@"
    ours >ours.json
    heaptrack_sites "$@" >heaptrack.json
    jq -n -r --arg name "$name" --argjson most "$(dhat "$@" | jq .most)" --slurpfile ours ours.json --slurpfile heaptrack heaptrack.json '
        def mib: . / 1048576 * 1000 | round / 1000;
        $ours[0] as $o |
        "\($name): most live \($o.most | mib) MiB, by DHAT \($most | mib) MiB: \(1e4 * ($o.most - $most) / $most | round / 100) % off",
        ($heaptrack[0][] | . as $site | ($o.sites | map(select(.name == $site.name))[0].live // null) as $live |
            "  \($site.name[:40]): heaptrack \($site.live | mib), ours \(if $live then $live | mib else "not there" end)")'
}

row perl perl -e 'my %h; for my $i (0 .. 60000) { $h{"key$i"} = [$i, "value $i"] } for my $i (0 .. 20000) { delete $h{"key$i"} }'
row ruby ruby -e 'x = (0...40000).map { |i| { a: "name of #{i} that is no short text" } }; p x.size'
row lua lua5.4 -e 'local t = {} for i = 1, 60000 do t[i] = {name = "n" .. i, i} end'
row gawk gawk '{ a[$1] = $2; b[$3] = b[$3] $2 } END { print length(a) }' in.txt
row xmllint xmllint --noout in.xml
echo 'a = 7 ^ 20000; b = a * a; length(b); for (i = 0; i < 9000; i++) x[i] = i ^ 9; quit' >in.bc
row bc bc -q in.bc
row xz xz -9 -k -c in.txt
row php php -n -d memory_limit=1G -r '$x = []; for ($i = 0; $i < 60000; $i++) $x[] = "text $i"; echo count($x);'
echo 'for {set i 0} {$i < 40000} {incr i} { set a($i) "text $i"; lappend l [list $i $i] }' >in.tcl
row tclsh tclsh in.tcl
jq -n -r 'range(8000) | "define(`name\(.)'"'"', `text \(.)'"'"')dnl"' >in.m4
row m4 m4 in.m4
row sort sort -k2 --parallel=1 in.txt
row cc1 "${cc1[@]}"
