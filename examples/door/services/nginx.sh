# nginx with two workers that pass large answers through their buffers to slow clients.
prepare() { command -v nginx >/dev/null || apt-get install -y nginx-light; }
serve() {
    local settings=() flag
    for flag in "${flags[@]}"; do settings+=("${flag//=/ };"); done
    [ ${#settings[@]} -eq 0 ] && settings=('proxy_buffers 64 64k;')
    head -c 16000000 /dev/urandom >"$at/request"
    cat >"$at/nginx.conf" <<CONF
daemon off;
worker_processes 2;
pid $at/nginx.pid;
error_log $at/nginx.log;
events { worker_connections 1024; }
http {
    access_log off;
    proxy_max_temp_file_size 0;
    proxy_buffer_size 64k;
    proxy_busy_buffers_size 128k;
    ${settings[*]}
    server {
        listen 127.0.0.1:$port;
        location / { proxy_pass http://127.0.0.1:$((port + 500)); }
    }
    server {
        listen 127.0.0.1:$((port + 500));
        location / { root $at; }
    }
}
CONF
    env "${environment[@]}" nginx -c "$at/nginx.conf" -e "$at/nginx.log" &
    pid=$!
    ready "$pid" listening "$port"
}
look() { pgrep -P "$pid"; }
burst() { load /request "$1" 96 192 1 2 slow; }
remedies() {
    cat <<'LIST'
give-back now give_back
reload now kill -HUP $pid
preload-jemalloc start LD_PRELOAD=libjemalloc.so.2
small-buffers start proxy_buffers=8=64k
arena-max-2 start MALLOC_ARENA_MAX=2
trim-threshold start MALLOC_TRIM_THRESHOLD_=131072
mmap-threshold start MALLOC_MMAP_THRESHOLD_=65536
LIST
}
