# varnish (its child with the cache), after all that it kept has expired.
prepare() { command -v varnishd >/dev/null || apt-get install -y varnish; }
serve() {
    python3 "$here/bytes.py" $((port + 500)) &
    others=$!
    cat >"$at/all.vcl" <<CONF
vcl 4.1;
backend bytes { .host = "127.0.0.1"; .port = "$((port + 500))"; }
sub vcl_backend_response { set beresp.ttl = 8s; set beresp.grace = 0s; set beresp.keep = 0s; }
CONF
    env "${environment[@]}" varnishd -F -n "$at/varnish" -a "127.0.0.1:$port" -T none -f "$at/all.vcl" -s malloc,512m "${flags[@]}" &
    pid=$!
    ready "$pid" listening "$port"
}
look() { pgrep -P "$pid"; }
burst() { load /request "$1" 32 2000 10 1000; }
remedies() {
    cat <<'LIST'
give-back now give_back
background-thread start MALLOC_CONF=background_thread:true
LIST
}
