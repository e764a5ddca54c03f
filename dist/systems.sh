# Clean systems, in folders. Sourced by try.sh and try-bad.sh, after versions.sh.
dist=$PWD/target/dist
mirror=${MIRROR:-$({ cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null || true; } | sed -n "s/^URIs: *//p; s/^deb \(\[[^]]*\] \)\?\([^ ]*\) .*/\2/p" | head -n 1)}
mkdir -p "$dist/roots"
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT

# A Debian with Python and nothing of ours, made once.
clean() { # RELEASE
    [ -s "$dist/roots/$1.tar" ] && return
    echo "making Debian $1 from $mirror" >&2
    mmdebstrap --quiet --variant=minbase --include=python3,python3-venv "$1" "$dist/roots/$1.new.tar" "$mirror"
    mv "$dist/roots/$1.new.tar" "$dist/roots/$1.tar"
}

# Runs a command in a root folder, with process and mount namespaces of its own.
within() { # ROOT COMMAND...
    local root=$1
    shift
    unshare --mount --pid --fork --kill-child sh -euc '
        root=$1; shift
        mount -t proc proc "$root/proc"
        mount -t sysfs -o ro sys "$root/sys"
        mount -t tmpfs dev "$root/dev"
        for name in null zero random urandom; do touch "$root/dev/$name"; mount --bind "/dev/$name" "$root/dev/$name"; done
        ln -s /proc/self/fd "$root/dev/fd"
        exec chroot "$root" /usr/bin/env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin LC_ALL=C.UTF-8 HOME=/root "$@"
    ' sh "$root" "$@"
}

install_by() { # WAY ROOT
    case $1 in
    deb)
        cp "$dist/allocanary_${VERSION}_amd64.deb" "$2/tmp/allocanary.deb"
        within "$2" dpkg -i /tmp/allocanary.deb
        ;;
    tarball)
        within "$2" tar -xz -C /opt -f - <"$dist/allocanary-$VERSION-x86_64-linux-gnu.tar.gz"
        ln -s "/opt/allocanary-$VERSION-x86_64-linux-gnu/bin/"{allocanary,kubectl-allocanary} "$2/usr/local/bin/"
        ;;
    wheel)
        cp "$dist"/allocanary-"$VERSION"-py3-none-*_x86_64.whl "$2/tmp/"
        within "$2" sh -ec 'python3 -m venv /venv; /venv/bin/pip install -q --no-index /tmp/*.whl; ln -s /venv/bin/allocanary /venv/bin/kubectl-allocanary /usr/local/bin/'
        ;;
    *) echo "try.sh: wanted deb, tarball or wheel, found $1"; exit 2 ;;
    esac
}
