#!/usr/bin/env bash
# A container image of what dist/build.sh made, with glibc and nothing else: target/dist/allocanary-VERSION-ARCH-image.tar, an OCI
# archive. Load it with `skopeo copy oci-archive:FILE docker-daemon:allocanary:VERSION` or `podman load -i FILE`.
#
#   dist/image.sh [x86_64|aarch64]
#
# Needs umoci and apt-get of Debian 12. Its layer belongs to root, so it runs as root or under fakeroot.
set -euo pipefail
cd "$(dirname "$0")/.."
arch=${1:-x86_64}
. dist/versions.sh
case $arch in x86_64) debian=amd64 ;; aarch64) debian=arm64 ;; *) echo "image.sh: wanted x86_64 or aarch64, found $arch"; exit 1 ;; esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
root=$work/root
mkdir -p "$root"/{etc,tmp,proc,sys,dev,usr/lib/allocanary}
chmod 1777 "$root/tmp"

# The loader, the C library, and the unwinder, with their licences.
(cd "$work" && apt-get download -q -o APT::Sandbox::User=root "libc6:$debian=$LIBC6" "libgcc-s1:$debian=$LIBGCC" >/dev/null) ||
    { echo "image.sh: wanted libc6:$debian $LIBC6 and libgcc-s1 $LIBGCC from Debian: see dist/versions.sh. For aarch64 run" \
        "\`dpkg --add-architecture arm64 && apt-get update\` first"; exit 1; }
for package in "$work"/*.deb; do
    dpkg-deb -x "$package" "$work/libc"
done
libraries=lib/$arch-linux-gnu
mkdir -p "$root/usr/$libraries"
ln -s usr/lib "$root/lib"
for name in libc.so.6 libm.so.6 libgcc_s.so.1 libpthread.so.0 libdl.so.2 librt.so.1; do
    cp -L "$(find "$work/libc" -name "$name" | head -n 1)" "$root/usr/$libraries/$name"
done
loader=$(find "$work/libc" -name 'ld-linux-*' | head -n 1)
cp -L "$loader" "$root/usr/$libraries/$(basename "$loader")"
if [ "$arch" = x86_64 ]; then
    mkdir -p "$root/usr/lib64"
    ln -s usr/lib64 "$root/lib64"
    ln -s "../$libraries/$(basename "$loader")" "$root/usr/lib64/$(basename "$loader")"
else
    ln -s "$arch-linux-gnu/$(basename "$loader")" "$root/usr/lib/$(basename "$loader")"
fi
for package in libc6 libgcc-s1; do
    mkdir -p "$root/usr/share/doc/$package"
    cp -L "$(find "$work/libc/usr/share/doc" -path "*/$package/copyright" -o -path '*/gcc-12-base/copyright' | head -n 1)" \
        "$root/usr/share/doc/$package/copyright" 2>/dev/null || true
done

# Ours.
# Without kubectl-allocanary, which is a script: the image has no shell.
install -D "target/dist/$arch/tree/bin/allocanary" "$root/usr/bin/allocanary"
cp -a "target/dist/$arch/tree/lib/allocanary" "$root/usr/lib/"
mkdir -p "$root/usr/share/doc"
cp -a "target/dist/$arch/tree/share/doc/allocanary" "$root/usr/share/doc/"
ln -s usr/bin "$root/bin"
echo 'root:x:0:0:root:/:/usr/bin/allocanary
user:x:65532:65532:user:/tmp:/usr/bin/allocanary' >"$root/etc/passwd"
chown -R 0:0 "$root"
find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +

when=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
image=$work/image:$VERSION
umoci init --layout "$work/image"
umoci new --image "$image"
umoci insert --history.created "$when" --history.created_by dist/image.sh --image "$image" "$root" /
umoci config --image "$image" --no-history --created "$when" --architecture "$debian" --os linux --clear config.entrypoint \
    --config.entrypoint /usr/bin/allocanary --config.user 65532:65532 --config.workingdir /tmp --config.env PATH=/usr/bin \
    --config.label "org.opencontainers.image.version=$VERSION" \
    --config.label "org.opencontainers.image.revision=$(git rev-parse HEAD)" \
    --config.label org.opencontainers.image.source=https://github.com/allocanary/allocanary \
    --config.label "org.opencontainers.image.licenses=MIT OR Apache-2.0"
umoci gc --layout "$work/image"
file=target/dist/allocanary-$VERSION-$arch-image.tar
tar --create --directory "$work/image" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --file "$file" .
size=$(stat -c %s "$file")
[ "$size" -le 40000000 ] || { echo "image.sh: $file: wanted at most 40 MB, found $size bytes"; exit 1; }
echo "$file $size bytes, $(du -s --apparent-size --block-size=1000000 "$root" | cut -f 1) MB unpacked"
