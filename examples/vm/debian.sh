# shellcheck shell=bash
# Packages of Debian for arm64, unpacked into folders without being installed. Sourced, with $work, a folder for what is downloaded, and
# $mirror, where Debian's packages are.

# Unpacks packages of a release: unpack RELEASE FOLDER NAME... A NAME is a regular expression; of several that fit the last one is taken.
unpack() {
    local release=$1 folder=$2 apt name package
    shift 2
    local state=$work/apt-$release
    if [ ! -d "$state" ]; then
        mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
        touch "$state/status"
        echo "deb [trusted=yes] $mirror $release main" >"$state/sources"
    fi
    apt=(-o Dir::Etc::sourcelist="$state/sources" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$state/lists"
        -o Dir::Cache="$state/cache" -o Dir::State::status="$state/status" -o APT::Architecture=arm64 -o APT::Architectures=arm64)
    [ -e "$state/updated" ] || apt-get -qq "${apt[@]}" update >&2
    touch "$state/updated"
    mkdir -p "$folder"
    for name; do
        package=$(apt-cache "${apt[@]}" search --names-only "^$name\$" | cut -d ' ' -f 1 | sort -V | tail -n 1)
        [ -n "$package" ] || { echo "${0##*/}: wanted a package $name of $release for arm64, found none" >&2; return 1; }
        (cd "$state" && apt-get -qq "${apt[@]}" download "$package" 2>/dev/null)
        dpkg -x "$state/$package"_*.deb "$folder"
    done
}

# The kernel with pages of 4k or 16k, unpacked once: arm_kernel PAGES FOLDER. Debian has none with pages of 64 KiB.
arm_kernel() {
    local folder=$2/kernel-$1 release=bookworm name='linux-image-[0-9.-]*-cloud-arm64'
    [ "$1" != 16k ] || release=trixie name='linux-image-[0-9.+-]*deb13-arm64-16k'
    if [ ! -d "$folder" ]; then
        rm -rf "$folder.new"
        unpack "$release" "$folder.new" "$name" || return 1
        mv "$folder.new" "$folder"
    fi
    ls "$folder"/boot/vmlinuz-*
}
