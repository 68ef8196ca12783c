# shellcheck shell=bash disable=SC2034 # lab reads PART_*
# Podman's service with the API of Docker Engine, and with its own folders and socket. Debian's
# Podman with runc: no network backend is set up, so containers have none.
PART_IS='Podman with the image busybox:local, at a socket'
PART_ROOT=yes

state=$RUN/$PART

part_needs() { needs_containers; }

part_install() {
    need_packages /usr/bin/podman=podman /usr/sbin/runc=runc /usr/sbin/dockerd=docker.io \
        /var/lib/dpkg/info/busybox-static.list=busybox-static
}

# Podman with the lab's settings only: the host's are neither read nor changed. Only flags are used,
# because the cleanup process of a container is another podman, which gets these flags but not a
# settings file.
settled() {
    CONTAINERS_CONF=$state/containers.conf CONTAINERS_STORAGE_CONF=$state/storage.conf \
        CONTAINERS_REGISTRIES_CONF=$state/registries.conf "$@"
}
engine() { settled timeout -k 5 60 podman "$@"; }

write_settings() {
    cat >"$state/containers.conf" <<SETTINGS
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
tmp_dir = "$state/tmp"
[engine.runtimes]
runc = ["/usr/sbin/runc"]
SETTINGS
    cat >"$state/storage.conf" <<SETTINGS
[storage]
driver = "vfs"
graphroot = "$state/data"
runroot = "$state/exec"
SETTINGS
    : >"$state/registries.conf"
    [ -e /etc/containers/policy.json ] || fail "no /etc/containers/policy.json, which comes with Debian's podman"
}

part_up() {
    write_settings
    # Container monitors leave a file in the working directory when memory is short.
    cd "$state" || fail "no folder $state"
    remember socket "unix://$state/podman.sock"
    settled start podman podman system service --time 0 "$(recall socket)"
    wait_for 60 "Podman to answer" podman answers
    busybox_archive "$state/busybox" | engine import -q -c 'CMD ["/bin/sh"]' - busybox:local >/dev/null
}

answers() { timeout -k 5 10 docker -H "$(recall socket)" version >/dev/null 2>&1; }

part_down() {
    [ -e "$state/socket" ] || return 0
    engine rm -af >/dev/null 2>&1 || true
    stop podman TERM 30
    umount_below "$state"
    forget_cgroups libpod_parent
}

part_is_up() { answers; }

part_env() { export_line METIER_LAB_PODMAN "$(recall socket)"; }

# Uses Podman itself: `docker run` of newer clients never returns from this service.
part_check() {
    local answer
    answer=$(engine run --rm --network none busybox:local sh -c 'echo inside; exit 7') && fail "exit code 7 was lost"
    [ "$answer" = inside ] || fail "a container said '$answer' instead of 'inside'"
}
