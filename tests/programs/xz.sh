# xz with four threads, and large blocks.
packages="xz-utils"
program() { readlink -f "$(command -v xz)"; }
version() { xz --version | awk 'NR == 1 { print $NF }'; }
run() {
    seq 1 700000 > numbers
    xz -k -2 -T4 --block-size=1MiB numbers
    cksum < numbers.xz
    xz -d -c -T4 numbers.xz | cksum
    xz --robot -l numbers.xz | awk '/^totals/ { print $2, $3, $5 }'
    head -c 5000 numbers.xz > cut.xz
    xz -d -c cut.xz 2> /dev/null | wc -c
    echo "cut ${PIPESTATUS[0]}"
}
