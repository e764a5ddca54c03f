# shellcheck shell=bash disable=SC2154
# What judges.sh and split.sh share: what allocanary, DHAT and heaptrack report of one program. They write to the present folder.
#
# A site is here the first function outside of the C library whose name is not one of the allocator's. All functions of a file that have no
# name are one site, as in heaptrack.

# Records a program with all stacks, to $recorded.
record() { # PROGRAM...
    rm -rf traces
    "$allocanary" record -o traces --max-size 4GiB --stack-sample all -- "$@" >/dev/null 2>&1 || true
    recorded=$(find traces -name '*.trace' -printf '%s %p\n' | sort -n | tail -1 | cut -d' ' -f2-)
}

# The functions that are no sites, besides those of the C library and the loader: for `who`, and as a pattern for heaptrack's names. In C++
# and Rust the libraries of the language are not sites either; there the names of types have "alloc" in them.
sites_of_c() { fold=--no-fold also='*alloc*' passed='alloc|strn?dup'; }
sites_of_cpp() { fold='' also='' passed='^(<|[^(]* )?(std|__gnu_cxx|alloc|core|hashbrown)([[][0-9a-f]*[]])?::|^decltype|^operator new|^__rust|^__rdl'; }
sites_of_c

# The bytes that $recorded has allocated, the maximum of its live bytes, and the bytes of each site at that time.
ours() {
    local patterns pattern flags
    # A pattern that matches no function of the trace is an error.
    for patterns in "libc.so.6 ld-linux* $also" "libc.so.6 $also" 'libc.so.6 ld-linux*' libc.so.6 ''; do
        flags=()
        while read -r pattern; do flags+=(--skip "$pattern"); done < <(tr ' ' '\n' <<<"$patterns" | grep .)
        "$allocanary" who --at peak --sort requested --json ${fold:+"$fold"} "${flags[@]}" "$recorded" >who.json 2>/dev/null && break
    done
    jq -c '{all: ([.sites[].allocated_total_bytes] | add), most: .answers[0].requested_bytes,
        sites: [.sites[] | {name: (.name | sub("[+]0x[0-9a-f]+$"; "")), live: .requested_bytes}]
        | group_by(.name) | map({name: .[0].name, live: (map(.live) | add)})}' who.json
}

# The bytes that a program has allocated, and the maximum of its live bytes.
dhat() { # PROGRAM...
    valgrind --tool=dhat --dhat-out-file=dhat.json "$@" >/dev/null 2>&1 || true
    jq -c '{all: ([.pps[].tb] | add), most: ([.pps[].gb] | add)}' dhat.json
}

# heaptrack prints each stack with its bytes. Stacks that it has merged (-m 1) all have the inlined functions of the first one. Blocks that
# are reached only through the start of the C++ library belong to heaptrack: a C program does not load that library without it.
heaptrack_sites() { # PROGRAM...
    rm -f ht.*
    heaptrack -o ht "$@" >/dev/null 2>&1 || true
    # Not each release of heaptrack reads the names of Rust's compilers, new ones and old ones.
    local rust='s/::h[0-9a-f]{16}$//; s/_?[$]LT[$]/</g; s/[$]GT[$]/>/g; s/[$]u20[$]/ /g; s/[$]u7b[$]/{/g; s/[$]u7d[$]/}/g; s/[$]C[$]/,/g; s/([a-z_>])[.][.]([a-zA-Z_])/\1::\2/g'
    heaptrack_print -m 0 -p 1 -a 0 -T 0 -l 0 -n 100000 -s 100000 ht.*zst 2>/dev/null | c++filt | sed -E "$rust" | awk -v passed="$passed" '
        function bytes(text) { return text * (text ~ /K$/ ? 1e3 : text ~ /M$/ ? 1e6 : text ~ /G$/ ? 1e9 : 1) }
        # The file of a function is on a line below its name. The functions into which it was inlined follow without one.
        function frame() {
            if (name != "" && found == "" && module !~ /^(libc\.so|ld-linux|libheaptrack|libstdc)/ && name !~ passed)
                found = name ~ /^0x/ ? module : name
            name = ""
        }
        function end() { frame(); if (live > 0 && found != "") sum[found] += live; live = 0; found = "" }
        / peak memory consumed over / { end(); live = bytes($1); next }
        /^ *at / || /^$/ { next }
        /^ *in / { module = $0; sub(/.*\//, "", module); next }
        { frame(); name = $0; sub(/^ +/, "", name) }
        END { end(); for (name in sum) printf "{\"name\": \"%s\", \"live\": %d}\n", name, sum[name] }' |
        jq -s -c 'sort_by(-.live)[:5]'
}
