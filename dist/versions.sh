# Versions of what the packages are made with. Other versions give other bytes, and perhaps other packages.
RUST=1.95.0
GLIBC=2.28
ZIGLANG=0.17.1
TWINE=7.0.0
VERSION=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
# Every file has the time of the commit.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C
umask 022
# The C library of the container image, from the Debian release on which this runs.
LIBC6=2.36-9+deb12u14 LIBGCC=12.2.0-14+deb12u1
