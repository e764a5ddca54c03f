# Installs the pinned tools from Python's registry into target/dist/tools, once, and checks Rust's version.
found=$(rustc --version | cut -d ' ' -f 2)
[ "$found" = "$RUST" ] || { echo "tools.sh: wanted rustc $RUST, found $found: rustup toolchain install $RUST"; exit 1; }
tools=$PWD/target/dist/tools
if [ "$(cat "$tools/versions" 2>/dev/null)" != "$ZIGLANG $TWINE" ]; then
    rm -rf "$tools"
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check "ziglang==$ZIGLANG" "twine==$TWINE"
    echo "$ZIGLANG $TWINE" >"$tools/versions"
fi
export ZIG="$tools/bin/python3 -m ziglang"
