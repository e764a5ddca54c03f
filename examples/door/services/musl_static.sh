# A static program on musl (mallocng), as a container image from scratch has it.
prepare() {
    command -v musl-gcc >/dev/null || apt-get install -y musl-tools
    musl-gcc -O2 -g -static -pthread -o "$built/static" "$here/static.c"
}
serve() {
    env "${environment[@]}" "$built/static" "$port" &
    pid=$!
    ready "$pid" listening "$port"
}
burst() { load /request "$1" 32 500 500 8000 fresh; }
remedies() {
    cat <<'LIST'
give-back now give_back
LIST
}
