# shellcheck shell=bash disable=SC2034 # lab reads PART_*
# Docker Engine with its own folders and socket, so that it never touches other containers. A
# running system engine is used instead.
PART_IS='Docker Engine with the image busybox:local'
PART_ROOT=yes

state=$RUN/$PART

part_needs() {
    needs_containers
    # A socket path has at most 107 bytes, and containerd's paths are the longest.
    [ ${#state} -le 60 ] || skip "the path $state is too long for sockets" "set METIER_LAB_DIR to a shorter folder"
}

part_install() {
    need_packages /usr/sbin/dockerd=docker.io /usr/sbin/iptables=iptables /usr/sbin/ip=iproute2 \
        /var/lib/dpkg/info/busybox-static.list=busybox-static
}

# A system engine at the default address of clients.
SYSTEM=unix:///var/run/docker.sock
system_engine() { timeout 10 docker -H "$SYSTEM" info >/dev/null 2>&1; }

engine() { timeout 60 docker -H "$(recall socket)" "$@"; }

part_up() {
    if system_engine; then
        say "using the system's Docker Engine"
        remember socket "$SYSTEM"
    else
        remember socket "unix://$state/docker.sock"
        [ -e /sys/class/net/docker0 ] || remember made_bridge yes
        start_engine
    fi
    make_images
}

start_engine() {
    local options=(--host="$(recall socket)" --group="${SUDO_GID:-0}" --data-root="$state/data"
        --exec-root="$state/exec" --pidfile="$state/docker.pid" --config-file="$state/daemon.json")
    echo '{}' >"$state/daemon.json"
    # Left by a killed engine; dockerd would treat even a zombie as running.
    rm -f "$state/docker.pid" "$state/exec/containerd/containerd.pid"
    # If the host refuses a negative oom_score_adj, a wrapper of runc asks for 0 instead.
    if ! (echo -998 >/proc/self/oom_score_adj) 2>/dev/null; then
        write_shim
        options+=(--add-runtime "shim=$state/runc-shim" --default-runtime shim)
    fi
    start dockerd dockerd "${options[@]}"
    # A kernel without bridges or packet filter still runs containers, but without a network.
    if ! (wait_for 60 "Docker Engine to answer" dockerd engine info); then
        ! alive dockerd || fail "the engine runs but does not answer"
        say "trying again without a bridge network"
        start dockerd dockerd "${options[@]}" --iptables=false --bridge=none
        wait_for 60 "Docker Engine to answer" dockerd engine info
    fi
}

write_shim() {
    cat >"$state/runc-shim" <<'SHIM'
#!/bin/sh
previous= bundle=
for word in "$@"; do
    [ "$previous" != --bundle ] || bundle=$word
    previous=$word
done
[ ! -f "$bundle/config.json" ] || sed -i 's/"oomScoreAdj":-[0-9]*/"oomScoreAdj":0/' "$bundle/config.json"
exec runc "$@"
SHIM
    chmod +x "$state/runc-shim"
}

make_images() {
    ! engine image inspect busybox:local >/dev/null 2>&1 || return 0
    busybox_archive "$state/busybox" | engine import -c 'CMD ["/bin/sh"]' - busybox:local >/dev/null
}

part_down() {
    [ -e "$state/socket" ] || return 0
    [ -d "$state/data" ] || return 0 # never stop the system's engine
    # The containers of a killed engine keep running, and only an engine can stop them.
    if ! alive dockerd && pgrep -f "containerd-shim.* -address $state/exec/" >/dev/null; then
        start_engine
    fi
    if alive dockerd; then
        engine ps -aq | xargs -r docker -H "$(recall socket)" rm -f >/dev/null
    fi
    stop dockerd TERM 30
    [ ! -e "$state/made_bridge" ] || ip link delete docker0 2>/dev/null || true
    umount_below "$state"
    forget_cgroups docker
}

part_is_up() { engine info >/dev/null 2>&1; }

part_env() { export_line METIER_LAB_DOCKER "$(recall socket)"; }

part_check() {
    local answer
    # A limit that the container can read, and an exit code that is passed through.
    answer=$(engine run --rm --memory 64m busybox:local sh -c \
        'cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null; exit 7') && fail "exit code 7 was lost"
    [ "$answer" = 67108864 ] || fail "a limit of 64 MiB reads back as '$answer'"
}
