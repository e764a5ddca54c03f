#!/usr/bin/env bash
# Installs the packages of target/dist in clean systems, each in each way, and uses them as root and as a user. Prints a table in
# Markdown: `yes`, or what was found instead. Exit code 1 if a cell does not begin with `yes`.
#
#   sudo dist/try.sh [NAME...]      # of bullseye-deb bookworm-tarball trixie-wheel ..., default: all
#
# Needs root, mmdebstrap and about 1.5 GB of disk. MIRROR=URL is where Debian's packages come from; default: this machine's.
set -euo pipefail
cd "$(dirname "$0")/.."
. dist/versions.sh
. dist/systems.sh

[ $# -gt 0 ] || set -- {bullseye,bookworm,trixie}-{deb,tarball,wheel}
steps=$(sed -n 's/^try \([a-z-]*\) .*/\1/p' dist/try-inside.sh | tr '\n' ' ')
echo "| system and package | as | $(sed 's/ *$//; s/ / | /g' <<<"$steps") |"
echo "|---|---|$(sed 's/[a-z-]* */---|/g' <<<"$steps")"
bad=0
for name; do
    release=${name%-*} way=${name##*-}
    clean "$release"
    root=$work/$name
    mkdir "$root"
    tar -x -C "$root" --exclude='./dev/*' -f "$dist/roots/$release.tar"
    install_by "$way" "$root" >"$work/$name.log" 2>&1 || { cat "$work/$name.log" >&2; exit 1; }
    cp dist/try-inside.sh "$root/tmp/"
    for user in root user; do
        # A folder of its own, and an account without rights.
        mkdir -p "$root/try/$user"
        [ "$user" = root ] || chown 1000:1000 "$root/try/$user"
        as=()
        [ "$user" = root ] || as=(setpriv --reuid 1000 --regid 1000 --clear-groups)
        within "$root" "${as[@]}" sh -c "cd /try/$user && exec sh /tmp/try-inside.sh" >"$work/$name-$user" 2>"$work/$name-$user.log" || true
        row="| $name | $user |"
        for step in $steps; do
            answer=$(sed -n "s/^$step //p" "$work/$name-$user")
            row+=" ${answer:-nothing} |"
            [[ $answer = yes* ]] || bad=1
        done
        echo "$row"
        [ -z "${KEEP:-}" ] || cp "$work/$name-$user.log" "$KEEP/"
    done
    rm -rf --one-file-system "$root"
done
exit "$bad"
