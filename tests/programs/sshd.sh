# sshd and its clients: one server for each connection, through a pipe, with a child in a sandbox that ends at a system call that it
# does not know.
packages="openssh-server openssh-client"
program() { readlink -f "$(command -v sshd || echo /usr/sbin/sshd)"; }
version() { ssh -V 2>&1 | sed 's/OpenSSH_//; s/ .*//; s/,.*//'; }
run() {
    [ "$(id -u)" != 0 ] || mkdir -p /run/sshd
    ssh-keygen -q -t ed25519 -N '' -f host
    ssh-keygen -q -t ed25519 -N '' -f user
    cat > sshd.conf << CONF
HostKey $PWD/host
AuthorizedKeysFile $PWD/user.pub
StrictModes no
UsePAM no
PidFile none
PermitRootLogin yes
Subsystem sftp internal-sftp
CONF
    cat > ssh.conf << CONF
Host *
ProxyCommand $(program) -i -f $PWD/sshd.conf -E $PWD/sshd.log
IdentityFile $PWD/user
IdentitiesOnly yes
UserKnownHostsFile $PWD/known
StrictHostKeyChecking no
LogLevel ERROR
CONF
    local at
    at=$(id -un)@server
    ssh -F ssh.conf "$at" 'echo in a session; exit 6'
    echo "ssh $?"
    seq 1 300000 | ssh -F ssh.conf -o Compression=yes "$at" cksum
    for n in 1 2 3; do ssh -F ssh.conf "$at" "sleep 0.05; seq 1 ${n}0000" > "out$n" & jobs[n]=$!; done
    for n in 1 2 3; do wait "${jobs[n]}"; cksum < "out$n"; done
    seq 1 100000 > put
    printf 'put %s/put %s/there\nget %s/there %s/got\n' "$PWD" "$PWD" "$PWD" "$PWD" | sftp -q -b - -F ssh.conf "$at" > sftp.log
    echo "sftp $?"
    cksum < got
    ssh -F ssh.conf -o IdentityFile=none -o PreferredAuthentications=none "$at" true 2> refused.log
    echo "refused $?"
}
