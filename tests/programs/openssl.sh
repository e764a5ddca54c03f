# openssl: keys, a certificate, and a server of TLS with its client.
packages="openssl"
program() { readlink -f "$(command -v openssl)"; }
version() { openssl version | awk '{ print $2 }'; }
run() {
    local server
    seq 1 500000 > text
    for name in sha256 sha3-512 blake2b512 md5; do openssl dgst "-$name" text; done
    openssl enc -aes-256-ctr -pbkdf2 -iter 20000 -S 0011223344556677 -k word -in text | cksum
    openssl req -x509 -newkey rsa:2048 -nodes -keyout key -out certificate -days 30 -subj /CN=name 2> /dev/null
    openssl dgst -sha256 -sign key -out signature text
    openssl x509 -in certificate -noout -pubkey > public
    openssl dgst -sha256 -verify public -signature signature text
    openssl verify -CAfile certificate certificate
    openssl s_server -quiet -unix openssl.sock -cert certificate -key key -WWW > server.log 2>&1 &
    server=$!
    until_it_answers test -S openssl.sock || return 8
    for version in tls1_2 tls1_3; do
        printf 'GET /text HTTP/1.0\r\n\r\n' | openssl s_client "-$version" -quiet -ign_eof -unix openssl.sock -CAfile certificate 2> /dev/null | cksum
    done
    kill "$server"
    wait "$server" 2> /dev/null
    echo "server $?"
}
