# shellcheck shell=bash disable=SC2034 # lab reads PART_*
# Podman's service, which speaks the interface of Docker Engine, with folders and a socket of its own.
# Debian's Podman with runc: no network backend is set up, so containers have none.
PART_IS='Podman with the image busybox:local, at a socket'
PART_ROOT=yes

state=$RUN/$PART

part_needs() { needs_containers; }

part_install() {
    need_packages /usr/bin/podman=podman /usr/sbin/runc=runc /usr/sbin/dockerd=docker.io \
        /var/lib/dpkg/info/busybox-static.list=busybox-static
}

# The program with settings of ours only: nothing of the host's is read or changed.
# What else could be set must not be: who cleans up after a container is another podman, which sees flags of this one but not its file.
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
    # Monitors of containers leave a note where they are when memory is short.
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

# With its own program: `docker run` of newer clients never comes back from this service.
part_check() {
    local answer
    answer=$(engine run --rm --network none busybox:local sh -c 'echo inside; exit 7') && fail "exit code 7 was lost"
    [ "$answer" = inside ] || fail "a container said '$answer' instead of 'inside'"
}
