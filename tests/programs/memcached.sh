# memcached: four worker threads, asked by Perl over a socket.
packages="memcached perl"
program() { readlink -f "$(command -v memcached)"; }
version() { memcached -V | awk '{ print $2 }'; }
run() {
    local server
    memcached -u "$(id -un)" -s "$PWD/memcached.sock" -t 4 -m 64 > server.log 2>&1 &
    server=$!
    until_it_answers test -S memcached.sock || return 8
    perl -w << 'PERL'
use strict;
use IO::Socket::UNIX;
my @ends = map { IO::Socket::UNIX->new(Peer => 'memcached.sock') or die "no socket: $!" } 1 .. 20;
my %count;
for my $n (1 .. 8000) {
    my $end = $ends[$n % @ends];
    my $value = 'v' x ($n % 3000);
    print $end "set key$n 0 0 " . length($value) . "\r\n$value\r\n";
    $count{scalar <$end>}++;
}
my $bytes = 0;
for my $n (1 .. 8000) {
    my $end = $ends[$n * 7 % @ends];
    print $end "get key$n\r\n";
    my $head = <$end>;
    if ($head =~ /^VALUE key$n 0 (\d+)/) { read $end, my $value, $1 + 2; $bytes += $1; $head = <$end>; }
    $count{$head}++;
}
for my $end (@ends) { print $end "incr none 1\r\n"; $count{scalar <$end>}++; }
print map { tr/\r\n//dr . " $count{$_}\n" } sort keys %count;
print "$bytes\n";
PERL
    kill -TERM "$server"
    wait "$server"
    echo "server $?"
}
