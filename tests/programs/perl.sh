# Perl with threads, forks and pipes.
packages="perl"
program() { readlink -f "$(command -v perl)"; }
version() { perl -e 'printf "%vd\n", $^V'; }
run() {
    perl -w << 'PERL'
use strict;
use threads;
use Digest::MD5 'md5_hex';
use Storable 'dclone';
use POSIX ();
my %words;
$words{md5_hex($_ % 5000)} .= "$_," for 1 .. 60000;
print join(' ', map { length $words{$_} } (sort keys %words)[0 .. 9]), "\n";
my $copy = dclone(\%words);
print md5_hex(join '', map { "$_=$copy->{$_}" } sort keys %$copy), "\n";
my $text = join "\n", map { "line $_ of " . 'x' x ($_ % 90) } 1 .. 20000;
my $count = () = $text =~ /^line (\d+)5 of (x{3,})$/mg;
(my $other = $text) =~ s/x(x+)/length($1)/ge;
print "$count ", md5_hex($other), "\n";
my @threads = map { my $n = $_; threads->create(sub { select undef, undef, undef, 0.01; my $s = 0; $s += length for map { 'y' x $_ } 1 .. 1000 + $n; $s }) } 1 .. 6;
print join(' ', map { $_->join } @threads), "\n";
for my $n (1 .. 5) {
    pipe my $in, my $out;
    my $pid = fork;
    if (!$pid) { close $in; print $out join ',', map { $_ * $n } 1 .. 1000; close $out; POSIX::_exit($n); }
    close $out;
    my $said = do { local $/; <$in> };
    waitpid $pid, 0;
    print length $said, ' ', $? >> 8, "\n";
}
PERL
}
