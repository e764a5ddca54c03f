# php-fpm, four workers, after big requests; nginx in front.
fpm=$(ls /usr/sbin/php-fpm* 2>/dev/null | tail -1)
prepare() {
    command -v nginx >/dev/null || apt-get install -y nginx-light
    [ -n "$fpm" ] || { apt-get install -y --no-install-recommends php-fpm && fpm=$(ls /usr/sbin/php-fpm* | tail -1); }
}
serve() {
    local settings
    settings=$(printf '%s\n' pm=static pm.max_children=4 "${flags[@]}" | awk -F= '{ last[$1] = $0 } END { for (name in last) print last[name] }')
    cat >"$at/fpm.conf" <<CONF
[global]
error_log = $at/fpm.log
daemonize = no
[www]
user = www-data
listen = $at/fpm.sock
listen.mode = 0666
clear_env = no
php_admin_value[memory_limit] = 512M
$settings
CONF
    cat >"$at/nginx.conf" <<CONF
daemon off;
pid $at/nginx.pid;
error_log $at/nginx.log;
events {}
http {
    access_log off;
    server {
        listen 127.0.0.1:$port;
        location / {
            include /etc/nginx/fastcgi_params;
            fastcgi_param SCRIPT_FILENAME $here/work.php;
            fastcgi_pass unix:$at/fpm.sock;
        }
    }
}
CONF
    env "${environment[@]}" "$fpm" --fpm-config "$at/fpm.conf" &
    pid=$!
    nginx -c "$at/nginx.conf" -e "$at/nginx.log" &
    others=$!
    while kill -0 "$pid" && [ ! -S "$at/fpm.sock" ]; do sleep 0.1; done
    ready "$pid" listening "$port"
}
look() { pgrep -P "$pid"; }
burst() { load /request "$1" 4 120 10000 80000; }
small_requests() { load /request 1 4 200 50 100; }
remedies() {
    cat <<'LIST'
give-back now give_back
small-requests now small_requests
reload now kill -USR2 $pid
gc-mem-caches code DOOR_GC_MEM_CACHES=1
max-requests start pm.max_requests=20
ondemand start pm=ondemand pm.process_idle_timeout=10s
arena-max-2 start MALLOC_ARENA_MAX=2
trim-threshold start MALLOC_TRIM_THRESHOLD_=131072
preload-jemalloc start LD_PRELOAD=libjemalloc.so.2
no-zend-alloc start USE_ZEND_ALLOC=0
huge-pages-off start USE_ZEND_ALLOC_HUGE_PAGES=0
LIST
}
