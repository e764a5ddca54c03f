# bash: arrays, expansions, subshells, pipes, traps, coprocesses.
packages="bash coreutils"
program() { readlink -f "$(command -v bash)"; }
version() { echo "${BASH_VERSION%(*}"; }
run() {
    bash << 'BASH'
declare -A count
for n in {1..5000}; do ((count[k$((n % 77))] += n)); done
for key in k3 k50 k76; do echo "$key ${count[$key]}"; done
text=$(for n in {1..3000}; do printf 'line %d\n' "$n"; done)
echo "${#text} ${text//line 1/x}" | cksum
mapfile -t lines <<< "$text"
echo "${#lines[@]} ${lines[2999]} ${lines[@]: -2}"
[[ ${lines[41]} =~ ^line\ ([0-9]+)$ ]] && echo "${BASH_REMATCH[1]}"
deep() { (($1)) && echo "$(deep $(($1 - 1)))." || echo .; }
deep 25
coproc cat
echo through a coprocess >&"${COPROC[1]}"
read -r said <&"${COPROC[0]}"
echo "$said"
eval "exec ${COPROC[1]}>&-"
wait "$COPROC_PID"
for n in 1 2 3 4; do (sleep 0.02; exit "$n") & jobs[n]=$!; done
for n in 1 2 3 4; do wait "${jobs[n]}"; printf '%s ' "$?"; done
paste -sd+ <(seq 200) | tr -d '\n' | cksum
trap 'echo a signal' USR1
kill -USR1 $$
read -r -t 0.01 nothing < <(sleep 0.05)
echo "read $(($? > 128))"
printf -v long '%*s' 1000000 ''
echo "${#long}"
trap 'echo the end' EXIT
exit 7
BASH
}
