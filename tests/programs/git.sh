# git: a history of its own, packed by threads, cloned, searched and merged by many small processes.
packages="git"
program() { readlink -f "$(command -v git)"; }
version() { git --version | awk '{ print $3 }'; }
run() {
    export GIT_AUTHOR_DATE='2001-01-01T00:00:00Z' GIT_COMMITTER_DATE='2001-01-01T00:00:00Z' GIT_CONFIG_NOSYSTEM=1
    git config --global user.name n
    git config --global user.email e
    git config --global init.defaultBranch main
    git init -q one
    cd one || return 9
    for n in $(seq 1 40); do
        seq "$n" "$((n * 50))" > "file$((n % 12))"
        git add -A
        git commit -q -m "change $n"
    done
    git checkout -q -b side HEAD~10
    echo side > side
    git add side
    git commit -q -m side
    git checkout -q main
    git merge -q -m merged side
    git rev-parse HEAD
    git log --stat --no-color --format='%h %s' | cksum
    git blame -s file3 | cksum
    git -c pack.threads=4 repack -q -a -d -f --depth=20
    git fsck --strict 2>&1 | cksum
    git grep --threads 4 -c 77 | sort | cksum
    git clone -q --no-local . ../two 2>&1
    git -C ../two rev-list --all --objects | sort | cksum
    git archive HEAD | cksum
    git diff --stat HEAD~20 | tail -n 1
    git show missing 2> /dev/null
    echo "show $?"
}
