#!/usr/bin/env bash
# One real node of Kubernetes on this machine, by hand before a release: etcd, the API server, the controllers, the scheduler, containerd and a
# kubelet. The chart's agent runs there, and pods: one leaks, one fragments, three replicas of a Deployment have threads, and short ones come
# and go. Prints what `kubectl allocanary` says of each. Then it waits for Ctrl-C, and ends all of it.
#
#   NODE=1 examples/kube_canary/tests/namespaces/apiserver/build.sh FOLDER    # once: a quarter of an hour
#   just dist                                                                # the image of the agent
#   sudo examples/fleet/node.sh FOLDER [COMMAND...]                           # with COMMAND: runs it, in place of waiting
#
# KUBECONFIG of the cluster is $KUBECONFIG of COMMAND, and is printed. Needs root, containerd, runc, etcd, kubectl, helm, skopeo, mmdebstrap, the CNI plugins of
# Debian (containernetworking-plugins) and 3 GB of disk. While it runs, 10.96.0.1 is an address of this machine.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
needs_root "control groups and networks"
needs etcd kubectl helm containerd ctr runc skopeo mmdebstrap openssl python3
built=$(realpath -m "${1:-$root/target/apiserver}")
shift || true
for command in kube-apiserver kube-controller-manager kube-scheduler kubelet; do
    [ -x "$built/$command" ] || fail "wanted $built/$command, found none: NODE=1 examples/kube_canary/tests/namespaces/apiserver/build.sh $built"
done
[ -z "$(find /sys/fs/cgroup -maxdepth 2 -name 'kubepods*' -print -quit)" ] || fail "wanted a machine without pods, found those of a kubelet in /sys/fs/cgroup"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)
image=$(ls "$root"/target/dist/allocanary-*-x86_64-image.tar 2>/dev/null | head -n 1)
[ -n "$image" ] || fail "wanted the image in target/dist, found none: just dist"
PATH=$PATH:/root/go/bin name=allocanary-node
address=$(hostname -I | cut -d ' ' -f 1)
export KUBECONFIG=$work/admin.yaml
cd "$work"
at_end() {
    pkill -f "containerd-shim.*$work/" || true
    # What has run in pods, which nobody else ends.
    find /sys/fs/cgroup -path '*kubepods*' -name cgroup.procs -exec cat {} + 2>/dev/null | sort -u | xargs -r kill -9 2>/dev/null || true
    sleep 1
    find /sys/fs/cgroup -depth -type d -path '*kubepods*' -exec rmdir {} + 2>/dev/null || true
    awk -v at="$work/" 'index($2, at) == 1 {print $2}' /proc/mounts | sort -r | xargs -r umount -l
    ip address del 10.96.0.1/32 dev lo 2>/dev/null || true
    ip link del cni-allocanary 2>/dev/null || true
}
runs() { local log=$1; shift; "$@" >"$log.log" 2>&1 & }
# Waits for a command for two minutes.
until_ok() { for _ in {1..240}; do if "$@" >/dev/null 2>&1; then return; fi; sleep 0.5; done; fail "in vain: $* ($work/*.log until the script ends)"; }

# One authority signs the certificates of the API server and of the kubelet, so that the agent can trust the kubelet.
signed() { # NAME SUBJECT NAMES USE
    openssl req -newkey rsa:2048 -nodes -keyout "$1.key" -subj "$2" -out "$1.csr" 2>/dev/null
    openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 10 -out "$1.crt" \
        -extfile <(printf 'subjectAltName=%s\nextendedKeyUsage=%s\n' "$3" "$4") 2>/dev/null
}
openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -subj /CN=cluster -days 10 -out ca.crt 2>/dev/null
openssl genrsa -out accounts.key 2048 2>/dev/null
signed apiserver /CN=kube-apiserver "IP:10.96.0.1,IP:127.0.0.1,IP:$address" serverAuth
signed kubelet "/CN=system:node:$name" "IP:$address" serverAuth
signed asks /O=system:masters/CN=apiserver DNS:none clientAuth
echo 'administrator,admin,1,"system:masters"' >tokens.csv
cat >admin.yaml <<Y
{apiVersion: v1, kind: Config, current-context: node, contexts: [{name: node, context: {cluster: node, user: admin}}],
 clusters: [{name: node, cluster: {server: "https://127.0.0.1:443", certificate-authority: $work/ca.crt}}],
 users: [{name: admin, user: {token: administrator}}]}
Y
ip address add 10.96.0.1/32 dev lo
sysctl -qw net.ipv4.ip_forward=1
runs etcd etcd --data-dir=etcd --listen-client-urls=http://127.0.0.1:2379 --advertise-client-urls=http://127.0.0.1:2379 \
    --listen-peer-urls=http://127.0.0.1:2380 --unsafe-no-fsync
runs apiserver "$built/kube-apiserver" --etcd-servers=http://127.0.0.1:2379 --authorization-mode=RBAC --bind-address=0.0.0.0 \
    --advertise-address="$address" --secure-port=443 --tls-cert-file=apiserver.crt --tls-private-key-file=apiserver.key \
    --token-auth-file=tokens.csv --service-cluster-ip-range=10.96.0.0/16 --service-account-key-file=accounts.key \
    --service-account-signing-key-file=accounts.key --service-account-issuer=https://kubernetes.default.svc.cluster.local \
    --client-ca-file=ca.crt --kubelet-client-certificate=asks.crt --kubelet-client-key=asks.key \
    --kubelet-preferred-address-types=InternalIP --allow-privileged=true
until_ok kubectl get --raw /readyz
runs controllers "$built/kube-controller-manager" --kubeconfig=admin.yaml --service-account-private-key-file=accounts.key \
    --root-ca-file=ca.crt --leader-elect=false --secure-port=0
runs scheduler "$built/kube-scheduler" --kubeconfig=admin.yaml --leader-elect=false --secure-port=0

# The pod's first process, and Debian with Python, as images of one layer each.
mkdir pause debian networks logs
echo 'int pause(void); int main(void) { for (;;) pause(); }' | cc -O1 -static -x c -o pause/pause -
mmdebstrap --quiet --variant=minbase --include=python3 bookworm debian.layer.tar
cp "$here/pods.py" pods.py
tar -rf debian.layer.tar pods.py
tar -C pause -cf pause.layer.tar pause
image_of() { # NAME: NAME.layer.tar becomes an archive that `ctr` imports
    python3 - "$1" <<'P'
import hashlib, json, sys
name = sys.argv[1]
layer = open(f"{name}.layer.tar", "rb").read()
json.dump({"architecture": "amd64", "os": "linux", "config": {"Cmd": ["/pause"], "Env": ["PATH=/usr/bin:/bin"]},
           "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]}}, open("config.json", "w"))
json.dump([{"Config": "config.json", "RepoTags": [f"docker.io/library/{name}:1"], "Layers": [f"{name}.layer.tar"]}], open("manifest.json", "w"))
P
    tar -cf "$1.tar" config.json manifest.json "$1.layer.tar"
}
image_of pause
image_of debian
skopeo copy --quiet --insecure-policy "oci-archive:$image" "docker-archive:agent.tar:docker.io/library/allocanary:$version"
cat >networks/pods.conflist <<Y
{"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "bridge", "bridge": "cni-allocanary", "isGateway": true,
 "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}, {"type": "loopback"}]}
Y
# Root of a virtual machine may lack the right to lower oom_score_adj.
cat >containerd.toml <<Y
version = 2
root = "$work/containerd"
state = "$work/state"
[grpc]
  address = "$work/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  sandbox_image = "docker.io/library/pause:1"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$work/networks"
Y
runs containerd containerd -c containerd.toml
until_ok ctr -a containerd.sock version
for archive in pause debian agent; do ctr -a containerd.sock -n k8s.io images import "$archive.tar" >/dev/null; done
cat >kubelet.yaml <<Y
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://$work/containerd.sock
cgroupDriver: cgroupfs
failSwapOn: false
failCgroupV1: false
resolvConf: ""
podLogsDir: $work/logs
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $work/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $work/kubelet.crt
tlsPrivateKeyFile: $work/kubelet.key
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}
Y
runs kubelet "$built/kubelet" --config=kubelet.yaml --kubeconfig=admin.yaml --hostname-override=$name --node-ip="$address" --root-dir="$work/kubelet" --cert-dir="$work/certificates"
until_ok kubectl wait --for=condition=Ready "node/$name" --timeout=1s
kubectl get nodes -o wide

kubectl create namespace memory >/dev/null
kubectl label namespace memory pod-security.kubernetes.io/enforce=privileged >/dev/null
helm install agent "$root/deploy/node/helm" -n memory --set image.tag="$version" --set every=15s >/dev/null
kubectl create namespace shop >/dev/null
until_ok kubectl -n shop get serviceaccount default
pod() { # KIND
    cat <<Y
    {automountServiceAccountToken: false, terminationGracePeriodSeconds: 1, containers: [{name: main, image: "debian:1", imagePullPolicy: Never,
     command: [python3, /pods.py, $1], env: [{name: PYTHONMALLOC, value: malloc}], resources: {limits: {memory: 1Gi}}}]}
Y
}
for kind in leaks fragments; do
    printf 'apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: %s\n' "$kind" "$(pod "$kind")" | kubectl -n shop apply -f - >/dev/null
done
printf 'apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 3, selector: {matchLabels: {app: web}},
 template: {metadata: {labels: {app: web}}, spec: %s}}\n' "$(pod threads)" | kubectl -n shop apply -f - >/dev/null
until_ok kubectl -n shop wait --for=condition=Ready pod --all --timeout=1s
until_ok kubectl -n memory wait --for=condition=Ready pod --all --timeout=1s
for number in 1 2 3 4 5 6; do
    printf 'apiVersion: v1\nkind: Pod\nmetadata: {name: short-%s}\nspec: %s\n' $number "$(pod short | sed 's/^ *{/{restartPolicy: Never, /')" |
        kubectl -n shop apply -f - >/dev/null
    sleep 15
done
kubectl -n shop get pods
export PATH=$root/target/dist/x86_64/tree/bin:$PATH
kubectl allocanary top || true
for name in leaks fragments "$(kubectl -n shop get pods -l app=web -o name | head -n 1)"; do
    printf '\n== why %s\n' "$name"
    kubectl allocanary why -n shop "$name" || true
done
if [ $# -gt 0 ]; then "$@"; else
    echo "
KUBECONFIG=$KUBECONFIG; Ctrl-C ends the node"
    wait
fi
