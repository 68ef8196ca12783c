# shellcheck shell=bash disable=SC2034 # lab reads PART_*
# One-node Kubernetes 1.20: etcd and kubectl from Debian, the rest built once from Debian's
# kubernetes source package, pods on the lab's Docker Engine. Pods have logs and exec, and the
# kubelet's cAdvisor works. There is no CNI, DNS or kube-proxy: a pod that needs the API uses the
# host network.
PART_IS='one-node Kubernetes (API server, controllers, scheduler, kubelet)'
PART_USES=docker
PART_ROOT=yes

VERSION=1.20.2
TARBALL="kubernetes_1.20.5+really$VERSION.orig.tar.gz"
PROGRAMS=(kube-apiserver kube-controller-manager kube-scheduler kubelet)
# The API server reaches the kubelet (logs, exec) by the node's name. This name resolves to loopback
# everywhere without a change of /etc/hosts.
NODE=localhost

state=$RUN/$PART
cache=$LAB/kube-$VERSION
config=$state/kubeconfig

part_needs() {
    # kubelet 1.20 supports only cgroup v1.
    [ -d /sys/fs/cgroup/memory ] || skip "no cgroup v1 memory controller, which kubelet $VERSION needs" \
        "boot with systemd.unified_cgroup_hierarchy=0"
}

# --- building -------------------------------------------------------------------------------

part_install() {
    need_packages /usr/bin/etcd=etcd-server /usr/bin/kubectl=kubernetes-client /usr/bin/openssl=openssl \
        /usr/sbin/conntrack=conntrack /usr/bin/curl=curl
    [ -x "$cache/bin/kubelet" ] || build
}

build() {
    local reflect=github.com/modern-go/reflect2 source=$cache/gopath/src/k8s.io/kubernetes
    need_packages /usr/bin/go=golang-go "/usr/share/gocode/src/$reflect=golang-github-modern-go-reflect2-dev"
    rm -rf "$cache"
    mkdir -p "$source" "$cache/built"
    say "building Kubernetes $VERSION, once (about 6 minutes of two cores)"
    fetch_source | tar -xz -C "$source" --strip-components=1
    # The vendored reflect2 1.0.1 crashes under Go 1.18 and later on the first custom resource.
    rm -rf "$source/vendor/$reflect"
    cp -r "/usr/share/gocode/src/$reflect" "$source/vendor/$reflect"
    (
        export GOPATH=$cache/gopath GOCACHE=$cache/gocache GO111MODULE=off GOFLAGS=
        cd "$source" && generate_openapi &&
            nice go build -ldflags "$(version_flags)" -o "$cache/built/" "${PROGRAMS[@]/#/./cmd/}"
    ) >"$LAB/kube-build.log" 2>&1 || fail "building Kubernetes; $(last_lines "$LAB/kube-build.log")"
    # Renamed only when complete; the 3 GB of sources and object files are deleted.
    mv "$cache/built" "$cache/bin"
    rm -rf "$cache/gopath" "$cache/gocache"
}

fetch_source() {
    curl -fsSL --retry 3 "$(debian_mirror | sed 's,/*$,,')/pool/main/k/kubernetes/${TARBALL//+/%2B}"
}

# Without these the server reports v0.0.0, which clients with a version check refuse.
version_flags() {
    local package
    for package in component-base/version client-go/pkg/version; do
        printf -- '-X k8s.io/kubernetes/vendor/k8s.io/%s.gitVersion=v%s ' "$package" "$VERSION"
        printf -- '-X k8s.io/kubernetes/vendor/k8s.io/%s.gitMajor=1 ' "$package"
        printf -- '-X k8s.io/kubernetes/vendor/k8s.io/%s.gitMinor=20 ' "$package"
    done
}

# The OpenAPI definitions are generated, not shipped, but the API server needs them to build.
generate_openapi() {
    local packages
    nice go build -o "$cache/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen || return
    packages=$(grep -rl --include='*.go' '+k8s:openapi-gen=' pkg vendor/k8s.io staging | grep -v _test |
        xargs -n 1 dirname | grep -vE 'sample-|gengo|kube-openapi/test|code-generator' |
        sed 's,^vendor/,,; s,^staging/src/,,; s,^pkg,k8s.io/kubernetes/pkg,' | sort -u | paste -sd,)
    "$cache/openapi-gen" -O zz_generated.openapi -i "$packages" -p k8s.io/kubernetes/pkg/generated/openapi \
        -h hack/boilerplate/boilerplate.generatego.txt -r "$cache/violations"
}

# --- running --------------------------------------------------------------------------------

ask() { kubectl --kubeconfig "$config" --request-timeout=5s "$@"; }
engine() { timeout 60 docker -H "$(PART=docker recall socket)" "$@"; }

part_up() {
    local name
    for name in api etcd peer kubelet; do free_port "port.$name"; done
    write_credentials
    start_control_plane
    start_node
}

write_credentials() {
    mkdir -p "$state/pki"
    openssl genrsa -out "$state/pki/account.key" 2048 2>/dev/null
    openssl rsa -in "$state/pki/account.key" -pubout -out "$state/pki/account.pub" 2>/dev/null
    echo 'metier-lab,admin,1,"system:masters"' >"$state/tokens.csv"
    cat >"$config" <<CONFIG
apiVersion: v1
kind: Config
clusters: [{name: lab, cluster: {server: "https://127.0.0.1:$(recall port.api)", insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: metier-lab}}]
contexts: [{name: lab, context: {cluster: lab, user: admin}}]
current-context: lab
CONFIG
}

start_control_plane() {
    local etcd peer
    etcd=http://127.0.0.1:$(recall port.etcd)
    peer=http://127.0.0.1:$(recall port.peer)
    # The cluster is temporary and need not survive a power cut; etcd would mostly wait for fsync.
    start etcd etcd --data-dir "$state/etcd" --unsafe-no-fsync --listen-client-urls "$etcd" --advertise-client-urls "$etcd" \
        --listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" --initial-cluster "default=$peer"
    start apiserver "$cache/bin/kube-apiserver" --etcd-servers="$etcd" --cert-dir="$state/pki" \
        --bind-address=127.0.0.1 --secure-port="$(recall port.api)" --token-auth-file="$state/tokens.csv" \
        --service-account-key-file="$state/pki/account.pub" --service-account-signing-key-file="$state/pki/account.key" \
        --service-account-issuer=https://kubernetes.default.svc --service-cluster-ip-range=10.0.0.0/24 \
        --authorization-mode=Node,RBAC --allow-privileged=true --kubelet-preferred-address-types=Hostname
    wait_for 120 "the API server to be ready" apiserver ask get --raw /readyz
    # Neither needs a port.
    start controllers "$cache/bin/kube-controller-manager" --kubeconfig="$config" --port=0 --secure-port=0 \
        --service-account-private-key-file="$state/pki/account.key" --leader-elect=false
    start scheduler "$cache/bin/kube-scheduler" --kubeconfig="$config" --port=0 --secure-port=0 --leader-elect=false
    wait_for 60 "the default service account" controllers ask get serviceaccount default
}

start_node() {
    local driver container
    driver=$(engine info -f '{{.CgroupDriver}}')
    # The pause container only holds a pod's namespaces open.
    container=$(engine create busybox:local)
    engine commit -c 'ENTRYPOINT ["/bin/sleep", "2147483647"]' "$container" pause:local >/dev/null
    engine rm "$container" >/dev/null
    # Images cannot be fetched again, so image collection on a full disk is disabled.
    start kubelet "$cache/bin/kubelet" --kubeconfig="$config" --hostname-override="$NODE" --root-dir="$state/kubelet" \
        --cert-dir="$state/pki" --container-runtime=docker --docker-endpoint="$(PART=docker recall socket)" \
        --pod-infra-container-image=pause:local --cgroup-driver="$driver" --fail-swap-on=false \
        --address=127.0.0.1 --port="$(recall port.kubelet)" --healthz-port=0 --read-only-port=0 \
        --anonymous-auth=true --authorization-mode=AlwaysAllow --authentication-token-webhook=false \
        --container-runtime-endpoint="unix://$state/dockershim.sock" --image-service-endpoint="unix://$state/dockershim.sock" \
        --experimental-dockershim-root-directory="$state/dockershim" --make-iptables-util-chains=false \
        --eviction-hard= --image-gc-high-threshold=100 --cluster-domain=cluster.local --cluster-dns=10.0.0.10
    wait_for 120 "the node to be ready" kubelet ask wait --for=condition=Ready "node/$NODE" --timeout=1s
}

part_down() {
    local name
    [ -d "$state" ] || return 0
    # Stop the kubelet first, or it restarts the containers removed here.
    for name in kubelet scheduler controllers apiserver etcd; do stop "$name"; done
    if [ -e "$RUN/docker/ready" ]; then
        engine ps -aq --filter label=io.kubernetes.pod.uid | xargs -r docker -H "$(PART=docker recall socket)" rm -f >/dev/null || true
    fi
    umount_below "$state"
    forget_cgroups kubepods
    # The kubelet keeps links to its pods' logs in a folder that cannot be configured.
    [ ! -d /var/log/pods ] || find /var/log/pods -depth -mindepth 1 \( -lname "$RUN/docker/*" -o -type d -empty \) -delete
    [ ! -d /var/log/containers ] || find -L /var/log/containers -type l -delete
}

part_env() {
    export_line METIER_LAB_KUBECONFIG "$config"
    export_line METIER_LAB_KUBELET "https://127.0.0.1:$(recall port.kubelet)"
}

part_check() {
    local said
    ask delete pod lab-check --ignore-not-found --grace-period=0 --force >/dev/null 2>&1
    ask run lab-check --image=busybox:local --restart=Never --command -- sh -c 'echo from a pod' >/dev/null
    wait_for 90 "a pod to run to completion" kubelet pod_succeeded
    said=$(ask logs lab-check)
    ask delete pod lab-check --grace-period=0 --force >/dev/null 2>&1
    [ "$said" = 'from a pod' ] || fail "the pod's log reads '$said'"
    curl -fsSk -m 10 "https://127.0.0.1:$(recall port.kubelet)/metrics/cadvisor" | grep '^container_memory_working_set_bytes' >/dev/null ||
        fail "cAdvisor shows no memory"
}

pod_succeeded() { [ "$(ask get pod lab-check -o 'jsonpath={.status.phase}')" = Succeeded ]; }
