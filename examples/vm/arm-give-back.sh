# Runs in the machine of arm.sh. First table: what `allocanary give-back` forecasts for the programs of known.c, and by how much their resident
# memory falls. A program with nothing to give is not called. Second table: programs that check all their registers, while callers borrow their
# threads and are killed.
set -u
. /payload/lib.sh
export PATH=/payload/bin:$PATH
echo "Linux $(uname -r)"
allocanary=/payload/allocanary wrong=0

one() { # ALLOCATOR PROGRAM [LIBRARY]
    local count=0 done=0 empty=0 forecasts=0 gifts=0 most=0
    for case in one half threads mmaps blocked large; do
        converse env LD_PRELOAD="${3:-}" "$2" $case
        ask build
        "$allocanary" give-back "$pid" --yes --json >"$work/given" 2>"$work/why"
        read -r forecast given <<<"$(jq -r '"\([.calls[].reclaimable_bytes // 0] | add // 0) \(if .after_bytes then .before_bytes - .after_bytes else "none" end)"' "$work/given")"
        count=$((count + 1))
        ask still
        if [ "$forecast $given $answer" = '0 none still' ] && [ "$(jq -c .calls "$work/given")" = '[]' ]; then
            empty=$((empty + 1))
        elif [ "$given" = none ] || [ -z "$given" ] || [ "$answer" != still ]; then
            echo "$1, $case: $(jq -r '[.calls[]?.error] | join("; ")' "$work/given") $(cat "$work/why") (it answers '$answer')"
            wrong=1
        else
            done=$((done + 1)) forecasts=$((forecasts + forecast)) gifts=$((gifts + given))
            off=$((given - forecast))
            [ ${off#-} -le $most ] || most=${off#-}
        fi
        end "$pid"
    done
    echo "| $1 | $count | $empty | $done | $(mib $forecasts) | $(mib $gifts) | $(mib $most) |"
}

echo '| allocator | programs | nothing to give | gave back | forecast MiB, sum | given MiB, sum | off MiB, at most |'
echo '|---|--:|--:|--:|--:|--:|--:|'
one 'glibc 2.36' /payload/known
one 'jemalloc 5.3.0 of Debian 12' /payload/known /lib/libjemalloc.so.2
one 'mimalloc 2.0.9' /payload/known /lib/libmimalloc.so.2
one 'tcmalloc 2.10' /payload/known /lib/libtcmalloc_minimal.so.4
one 'glibc 2.41' /payload/known-2.41
one 'jemalloc 5.3.0 of Debian 13' /payload/known-2.41 /trixie/libjemalloc.so.2
one 'mimalloc 3.0.1' /payload/known-2.41 /trixie/libmimalloc.so.3
one 'tcmalloc 2.16' /payload/known-2.41 /trixie/libtcmalloc_minimal.so.4

# killed.sh builds its two programs and compiles a third one, for which there is no compiler in the machine.
mkdir -p /target/release/examples
mv /payload/killed /payload/storm /target/release/examples/
echo
KNOWN=/payload/checks bash give_back/killed.sh "${CALLERS:-34}" "${CALLS:-20}" || wrong=1
exit $wrong
