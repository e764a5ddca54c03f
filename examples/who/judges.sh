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
needs valgrind heaptrack heaptrack_print jq perl ruby lua5.4 gawk xmllint bc xz php tclsh m4 cc
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

# The maximum of live bytes, and the bytes of each site at that time.
ours() { # PROGRAM...
    rm -rf traces
    "$allocanary" record -o traces --max-size 4GiB --stack-sample all -- "$@" >/dev/null 2>&1 || true
    local answer=("$allocanary" who --at peak --sort requested --no-fold --json "$(ls -S traces/*.trace | head -1)")
    # A pattern that matches no function of the trace is an error.
    { "${answer[@]}" --skip '*alloc*' 2>/dev/null || "${answer[@]}" 2>/dev/null; } |
        jq -c '{most: .answers[0].requested_bytes, sites: [.sites[] | {name: (.name | sub("[+]0x[0-9a-f]+$"; "")), live: .requested_bytes}]
            | group_by(.name) | map({name: .[0].name, live: (map(.live) | add)})}'
}

dhat() { # PROGRAM...
    valgrind --tool=dhat --dhat-out-file=dhat.json "$@" >/dev/null 2>&1 || true
    jq '[.pps[].gb] | add' dhat.json
}

# heaptrack prints each stack: its first function, and below it the bytes and the callers of each of its places. Blocks that are reached
# only through the start of the C++ library belong to heaptrack: a C program does not load that library without it.
heaptrack_sites() { # PROGRAM...
    rm -f ht.*
    heaptrack -o "$work/ht" "$@" >/dev/null 2>&1 || true
    heaptrack_print -p 1 -a 0 -T 0 -l 0 -n 100000 -s 100000 ht.*zst 2>/dev/null | awk '
        function bytes(text) { return text * (text ~ /K$/ ? 1e3 : text ~ /M$/ ? 1e6 : text ~ /G$/ ? 1e9 : 1) }
        # A function is identified together with its file, whose name is on the next line.
        function look(name, module) {
            if (found != "" || module ~ /^(libc\.so|ld-linux|libheaptrack)/) return
            if (name ~ /alloc|strn?dup/) return
            found = name ~ /^0x/ ? module : name
        }
        function end() { if (live > 0 && found != "" && found !~ /libstdc/) sum[found] += live; live = 0; found = "" }
        / peak memory consumed over / { end(); getline leaf; leaf_module = ""; is_leaf = 1; next }
        / consumed over .* from:$/ { end(); live = bytes($1); is_leaf = 0; look(leaf, leaf_module); next }
        /^ *at / || /^$/ || / other places$/ { next }
        /^ *in / { module = $0; sub(/.*\//, "", module); if (is_leaf) leaf_module = module; else look(name, module); next }
        { name = $0; sub(/^ +/, "", name) }
        END { end(); for (name in sum) printf "{\"name\": \"%s\", \"live\": %d}\n", name, sum[name] }' |
        jq -s -c 'sort_by(-.live)[:5]'
}

row() { # NAME PROGRAM...
    local name=$1
    shift
    wanted "$name" "${only[@]}" || return 0
    ours "$@" >ours.json
    heaptrack_sites "$@" >heaptrack.json
    jq -n -r --arg name "$name" --argjson most "$(dhat "$@")" --slurpfile ours ours.json --slurpfile heaptrack heaptrack.json '
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
