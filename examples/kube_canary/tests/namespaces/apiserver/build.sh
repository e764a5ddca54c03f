#!/usr/bin/env bash
# Builds a real kube-apiserver for the tests beside this file, and the part of a kubelet that forwards ports. Fetches the
# definitions of PodMonitor and ServiceMonitor that the Prometheus operator brings. Needs Go of the version that go.mod asks for, and a module proxy; a quarter of an hour on two cores, once.
#   tests/namespaces/apiserver/build.sh [FOLDER]     FOLDER/{kube-apiserver,port-forwarder,*.yaml}; without one, apiserver/ in Cargo's target
#   NODE=1 tests/namespaces/apiserver/build.sh       also kubelet, kube-controller-manager and kube-scheduler, for examples/fleet/node.sh
set -euo pipefail
version=1.34.4
operator=github.com/prometheus-operator/prometheus-operator@v0.85.0
folder=${1:-${CARGO_TARGET_DIR:-$(cd "$(dirname "$0")/../../../../.." && pwd)/target}/apiserver}
command -v go >/dev/null || { echo "apiserver/build.sh: needs go in PATH, found none" >&2; exit 1; }
mkdir -p "$folder"

# The folder of a module's source.
module() {
    local found
    found=$(cd / && go mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
    [ -d "$found" ] || { echo "apiserver/build.sh: go mod download gave no folder of $1" >&2; exit 1; }
    echo "$found"
}

here=$(cd "$(dirname "$0")" && pwd)
definitions=$(module "$operator")/example/prometheus-operator-crd
for kind in podmonitors servicemonitors; do
    cp --no-preserve=mode "$definitions/monitoring.coreos.com_$kind.yaml" "$folder/$kind.yaml"
done
commands=(kube-apiserver ${NODE:+kubelet kube-controller-manager kube-scheduler})
wanted=()
for command in "${commands[@]}"; do
    [ "$("$folder/$command" --version 2>/dev/null)" = "Kubernetes v$version" ] || wanted+=("$command")
done
[ -x "$folder/port-forwarder" ] || wanted+=(port-forwarder)
if [ ${#wanted[@]} = 0 ]; then
    echo "$folder has ${commands[*]} already"
    exit
fi

# The module's archive has neither vendor/ nor staging/. `go install` refuses its replacements, which point there. The
# replaced modules are also published with versions, so the replacements are changed to these.
source=$(mktemp -d)
trap 'chmod -R u+w "$source"; rm -rf "$source"' EXIT
kubernetes=$(module "k8s.io/kubernetes@v$version")
cp -r --no-preserve=mode "$kubernetes/." "$source"
cd "$source"
edits=()
for staged in $(sed -n 's|^\t\(k8s.io/[a-z-]*\) => ./staging/.*|\1|p' go.mod); do
    edits+=("-dropreplace=$staged" "-replace=$staged=$staged@v0${version#1}")
done
[ ${#edits[@]} -gt 0 ] || { echo "apiserver/build.sh: no replacement by ./staging in $kubernetes/go.mod" >&2; exit 1; }
rm -f go.work go.work.sum
go mod edit "${edits[@]}"
# Without all three values PodSecurity does not know which version it enforces.
IFS=. read -r major minor _ <<<"$version"
set_version=
for setting in "gitVersion=v$version" "gitMajor=$major" "gitMinor=$minor"; do
    set_version+=" -X k8s.io/component-base/version.$setting"
done
cp -r --no-preserve=mode "$here/forwarder" cmd/port-forwarder
for command in "${wanted[@]}"; do
    CGO_ENABLED=0 GOWORK=off GOFLAGS="-mod=mod -buildvcs=false" \
        go build -p "${JOBS:-2}" -trimpath -ldflags "-s -w$set_version" -o "$folder/$command" "./cmd/$command"
done
"$folder/kube-apiserver" --version
