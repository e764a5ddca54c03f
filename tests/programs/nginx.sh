# nginx: two workers and a pool of threads, asked by curl, many requests at once.
packages="nginx curl"
program() { readlink -f "$(command -v nginx || echo /usr/sbin/nginx)"; }
version() { "$(program)" -v 2>&1 | sed 's|.*/||; s| .*||'; }
ask() { curl -s --unix-socket nginx.sock "$@"; }
run() {
    local server
    chmod 755 .
    mkdir files logs
    seq 1 200000 > files/numbers
    for n in $(seq 1 50); do seq 1 "$((n * 40))" > "files/$n.txt"; done
    cat > nginx.conf << CONF
$([ "$(id -u)" = 0 ] && echo 'user root;')
worker_processes 2;
daemon off;
pid nginx.pid;
error_log logs/error.log;
thread_pool default threads=4;
events { worker_connections 256; }
http {
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    gzip on;
    gzip_types *;
    upstream itself { server unix:$PWD/nginx.sock; keepalive 4; }
    server {
        listen unix:$PWD/nginx.sock;
        root $PWD/files;
        aio threads;
        location / { }
        location /again/ { proxy_pass http://itself/; }
        location /say { return 418 "\$request_method \$args\n"; }
    }
}
CONF
    "$(program)" -p "$PWD" -c nginx.conf 2> start.log &
    server=$!
    until_it_answers ask -o /dev/null http://x/1.txt || return 8
    ask http://x/numbers | cksum
    ask --compressed http://x/numbers | cksum
    ask http://x/again/numbers | cksum
    ask --compressed --parallel --parallel-max 20 'http://x/[1-50].txt' | wc -c
    ask --parallel --parallel-max 20 'http://x/again/[1-50].txt' | wc -c
    ask -w '%{http_code}\n' 'http://x/say?words'
    ask -w '%{http_code}\n' -o /dev/null http://x/missing
    kill -HUP "$server"
    sleep 0.2
    ask http://x/7.txt | cksum
    kill -QUIT "$server"
    wait "$server"
    echo "server $?"
}
