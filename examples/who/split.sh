#!/usr/bin/env bash
# Are the names right if the debug information is in separate files? Ten programs are compiled with -g, split by `objcopy
# --only-keep-debug`, and stripped. Each is recorded once and read three times: with no debug file, with one below
# /usr/lib/debug/.build-id, and with one that a debuginfod on 127.0.0.1 has served. The table compares the bytes with DHAT's, and the five
# sites that have the most live bytes at the peak with those of heaptrack, which runs the program before it was split.
#
#   examples/who/split.sh [FOLDER OF allocanary] [PROGRAM...]      # SHOW=1 prints the sites as well
#
# Needs root, who writes below /usr/lib/debug and removes at the end what was written. Sources of five programs come by `apt-get source`,
# or are in the folder $SOURCES. What is built stays in the folder $PROGRAMS, if there is one, and is not built again.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/judge.sh"
needs_root '/usr/lib/debug'
needs valgrind heaptrack heaptrack_print jq cc c++ rustc make tclsh objcopy strip readelf c++filt debuginfod debuginfod-find
locate "${1:-}"
only=("${@:2}")
debug=/usr/lib/debug/.build-id
# The debug file of this script below that folder, if there is one now.
written=()
at_end() {
    for file in "${written[@]}"; do
        rm -f "$file"
        rmdir --ignore-fail-on-non-empty "${file%/*}"
    done
    written=()
}
cd "$work"
whole=${PROGRAMS:-$work/whole}
mkdir -p "$whole" split files cache
flags=(-O2 -g -w '-Wl,--build-id=sha1')

# The folder of a package's source.
source_of() {
    local folder=${SOURCES:-$work/sources}
    mkdir -p "$folder"
    [ -n "$(find "$folder" -maxdepth 1 -type d -name "$1-*")" ] ||
        (cd "$folder" && apt-get source -qq "$1" >/dev/null 2>&1) || fail "apt-get source $1 has failed: are there deb-src lines?"
    find "$folder" -maxdepth 1 -type d -name "$1-*" | head -1
}

make_lua() { # OUT
    local from
    from=$(source_of lua5.4)/src
    # luac.c has a `main` of its own.
    find "$from" -name '*.c' ! -name luac.c -print0 | xargs -0 sh -c 'out=$1; shift; cc "$@" -lm -ldl -Wl,-E -o "$out"' - "$1" "${flags[@]}" -DLUA_USE_LINUX
}
make_mawk() {
    cp -r "$(source_of mawk)" mawk
    (cd mawk && CFLAGS="${flags[*]}" ./configure && make) >log 2>&1
    cp mawk/mawk "$1"
}
make_xmlwf() {
    cp -r "$(source_of expat)/expat" expat
    printf '#define %s\n' 'BYTEORDER 1234' 'HAVE_GETRANDOM 1' 'XML_CONTEXT_BYTES 1024' 'XML_DTD 1' 'XML_NS 1' >expat/lib/expat_config.h
    (cd expat && cc "${flags[@]}" -DHAVE_EXPAT_CONFIG_H -Ilib -o "$1" lib/xml*.c xmlwf/{xmlwf,xmlfile,codepage,unixfilemap}.c)
}
make_jq() {
    cp -r "$(source_of jq)" jq
    # What its Makefile makes of the functions that are written in jq.
    sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/"/' -e 's/$/\\n"/' jq/src/builtin.jq >jq/src/builtin.inc
    echo '#define JQ_VERSION "1.6"' >jq/src/version.h
    rm jq/src/inject_errors.c
    (cd jq && cc "${flags[@]}" -I. -D_GNU_SOURCE -DIEEE_8087 -DHAVE_{ALLOCA_H,MKTIME,GMTIME_R,STRPTIME,TIMEGM,TM_TM_GMT_OFF} \
        -DHAVE_PTHREAD{,_KEY_CREATE} -o "$1" src/*.c -lm -pthread 2>/dev/null)
}
make_sqlite3() {
    local from
    from=$(realpath "$(source_of sqlite3)")
    mkdir sqlite3
    (cd sqlite3 && "$from/configure" --disable-readline --disable-tcl && make sqlite3.c shell.c) >log 2>&1
    cc "${flags[@]}" -DSQLITE_THREADSAFE=0 -DSQLITE_OMIT_LOAD_EXTENSION -o "$1" sqlite3/{shell,sqlite3}.c -lm
}
make_many() { c++ "${flags[@]}" -o "$1" "$root/examples/contents/many.cpp"; }
make_things() { c++ "${flags[@]}" -std=c++20 -o "$1" "$root/crates/contents/tests/programs/things.cpp"; }
make_documents() { c++ "${flags[@]}" -pthread -o "$1" "$root/examples/budget/documents.cpp"; }
make_tables() { rustc -O -g -C link-arg=-Wl,--build-id=sha1 -o "$1" "$root/examples/budget/tables.rs"; }
make_cache() { cc "${flags[@]}" -pthread -o "$1" "$root/examples/budget/cache.c"; }

# How many of heaptrack's sites are among ours, and the largest difference of their bytes.
same() { # OURS
    jq -n -r --slurpfile ours "$1" --slurpfile heaptrack heaptrack.json '
        def plain: sub("\\[abi:[^]]*\\]"; "") | sub("^[a-z ]+ (?=[A-Za-z_:]+<)"; "") | gsub("\\[[0-9a-f]{16}\\]"; "") | gsub("<.*>"; "") | sub("[(].*$"; "");
        ($ours[0].sites | map(select(.name | startswith("libstdc++") | not)) | sort_by(-.live)[:5] | map({key: (.name | plain), value: .live}) | group_by(.key) | map({key: .[0].key, value: (map(.value) | add)}) | from_entries) as $there |
        [$heaptrack[0] | map(select(.live >= $ours[0].most / 1000)) | map(.name |= plain) | group_by(.name)[] | {name: .[0].name, live: (map(.live) | add)}] as $wanted |
        [$wanted[] | select($there[.name]) | 100 * (($there[.name] - .live) | fabs) / .live] as $off |
        "\($off | length) of \($wanted | length)" + (if $off == [] then "" else ", \($off | max * 100 | round / 100) %" end)'
}

# Builds a program and splits it.
build_one() { # NAME
    [ -e "$whole/$1" ] || "make_$1" "$whole/$1" || fail "$1 could not be built: $(tail -1 log)"
    cp "$whole/$1" "split/$1"
    objcopy --only-keep-debug "$whole/$1" "files/$1.debug"
    strip "split/$1"
}

row() { # NAME ARGUMENTS...
    local name=$1 id place
    shift
    wanted "$name" "${only[@]}" || return 0
    id=$(readelf -n "split/$name" | sed -n 's/.*Build ID: //p')
    place=$debug/${id:0:2}/${id:2}.debug
    [ ! -e "$place" ] || fail "there is a file $place that this script has not written: remove it first"

    heaptrack_sites "$whole/$name" "$@" >heaptrack.json
    dhat "$work/split/$name" "$@" >judged.json
    record "$work/split/$name" "$@"
    ours >none.json

    mkdir -p "${place%/*}"
    written=("$place")
    cp "files/$name.debug" "$place"
    ours >installed.json
    at_end

    DEBUGINFOD_URLS=$url ready "$server" debuginfod-find debuginfo "$id" || fail "debuginfod does not serve the file of $name"
    ours >served.json

    [ -z "${SHOW:-}" ] || jq -c "(.sites? // .) | sort_by(-.live)[:7]" {heaptrack,none,installed,served}.json >&2
    jq -n -r --arg name "$name" --slurpfile ours none.json --slurpfile dhat judged.json \
        --arg none "$(same none.json)" --arg installed "$(same installed.json)" --arg served "$(same served.json)" '
        def mib: . / 1048576 * 1000 | round / 1000;
        def off($a; $b): "\(1e4 * ($a - $b) / $b | round / 100) %";
        $ours[0] as $o | $dhat[0] as $d |
        "| \($name) | \($o.all | mib) | \(off($o.all; $d.all)) | \($o.most | mib) | \(off($o.most; $d.most)) | \($none | sub(",.*"; "")) | \($installed) | \($served) |"'
}

jq -n -r '"<a>" + ([range(3000) | "<b id=\"\(.)\">text \(.)</b><c\(.)/>"] | add) + "</a>"' >in.xml
jq -n -r 'range(30000) | "\(. * 7919 % 30000) word\(.) \(. % 97)"' >in.txt
jq -n -c '[range(8000) | {id: ., tags: ["a\(. % 7)", "b"], text: "text number \(.)"}]' >in.json
for name in lua mawk xmlwf jq sqlite3 many things documents tables cache; do
    ! wanted "$name" "${only[@]}" || build_one "$name"
done

# A file may be there a second later: what was not found is asked for again at once.
echo 0 >cache/cache_miss_s
export DEBUGINFOD_CACHE_PATH=$work/cache
port=$(free_port)
url=http://127.0.0.1:$port
debuginfod -p "$port" -d :memory: -F files >debuginfod.log 2>&1 &
server=$!
ready $server listening "$port" || fail "debuginfod does not start: $(tail -1 debuginfod.log)"

echo '| program | allocated, MiB | off from DHAT | most live, MiB | off from DHAT | without | below /usr/lib/debug | debuginfod |'
echo '|---|--:|--:|--:|--:|---|---|---|'
row lua -e 'local t = {} for i = 1, 20000 do t[i] = {name = "n" .. i, i} end'
row mawk '{ a[$1] = $2; b[$3] = b[$3] $2 } END { print length(a) }' in.txt
row xmlwf -d "$work/cache" in.xml
row jq 'map(.tags) | length' in.json
row sqlite3 :memory: 'create table t(a, b); with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
    insert into t select i, hex(i * 7919) || "text" from n; create index j on t(b); delete from t where a % 5; select count(*) from t'
sites_of_cpp
row many 10000
row things
row documents 10000 2 1
row tables 4000 2 1
sites_of_c
row cache 8 4 1
