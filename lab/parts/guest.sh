# shellcheck shell=bash disable=SC2034 # lab reads PART_*
# A small Debian 12 guest with systemd on a pure cgroup v2 hierarchy, for what this host cannot
# show: its image is built here and cached; `lab/guest run` boots it, once per call.
PART_IS='emulated Debian 12 with systemd and pure cgroup v2 (image; lab/guest run boots it)'
PART_ROOT=yes

# A changed recipe makes a new image; runs that still use the old one are not disturbed.
recipe() { cat "$HERE/parts/guest.sh" "$HERE"/guest.d/* | sha256sum | cut -c1-12; }
image() { echo "$LAB/guest-$(recipe)"; }

PACKAGES=systemd,systemd-sysv,dbus,dbus-user-session,libpam-systemd,kmod,procps,util-linux,python3-minimal,stress-ng,docker.io,busybox-static

part_install() {
    need_packages /usr/bin/qemu-system-x86_64=qemu-system-x86 /usr/sbin/debootstrap=debootstrap \
        /usr/sbin/mkfs.ext4=e2fsprogs /var/lib/dpkg/info/busybox-static.list=busybox-static
    [ -d "$(image)" ] || build
}

build() {
    local work root version
    # Another clone may still use its own recipe's image, but not for ever.
    find "$LAB" -maxdepth 1 -name 'guest-*' -type d -mtime +7 -exec rm -rf {} +
    work=$(mktemp -d "$LAB/guest-building.XXXXXX")
    root=$work/root
    say "building the guest's image, once (about a minute)"
    debootstrap --variant=minbase --include="$PACKAGES" bookworm "$root" "$(debian_mirror)" >"$LAB/guest-build.log" 2>&1 ||
        fail "debootstrap; $(last_lines "$LAB/guest-build.log")"
    add_kernel
    version=$(basename "$root"/lib/modules/*)
    mv "$root/boot/vmlinuz-$version" "$work/kernel"
    make_initrd
    configure
    rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,man,locale}/* "${root:?}"/boot/*
    # No journal: an image that is never written to needs none.
    mkfs.ext4 -q -O ^has_journal -m 0 -d "$root" "$work/disk" 2G >>"$LAB/guest-build.log" 2>&1
    rm -rf "$root" "$work/initrd.d"
    chmod 755 "$work"
    mv "$work" "$(image)"
}

# Unpacked, never installed: neither the host nor the guest runs a kernel package's scripts.
add_kernel() {
    local package
    package=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image/ { print $2; exit }')
    (cd "$work" && apt-get download -q -o APT::Sandbox::User=root "$package") >>"$LAB/guest-build.log" 2>&1 ||
        fail "downloading $package; $(last_lines "$LAB/guest-build.log")"
    # Not --extract: that would put a folder in the place of the link /lib.
    dpkg-deb --fsys-tarfile "$work/$package"_*.deb | tar -x -C "$root" --keep-directory-symlink
    rm "$work/$package"_*.deb
}

make_initrd() {
    local initrd=$work/initrd.d file
    mkdir -p "$initrd"/{bin,dev,modules,root}
    cp /bin/busybox "$initrd/bin/"
    cp "$HERE/guest.d/init" "$initrd/init"
    chroot "$root" depmod "$version"
    for file in virtio_pci virtio_blk ext4 crc32c_generic; do
        chroot "$root" modprobe -S "$version" --show-depends "$file"
    done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' >"$work/modules"
    while read -r file; do
        cp "$root$file" "$initrd/modules/"
        basename "$file" >>"$initrd/modules/order"
    done <"$work/modules"
    (cd "$initrd" && find . | busybox cpio -o -H newc 2>/dev/null) >"$work/initrd"
    rm "$work/modules"
}

configure() {
    local unit units=$root/etc/systemd/system
    chroot "$root" useradd --create-home --uid 1000 --shell /bin/bash tester
    mkdir -p "$root/var/lib/systemd/linger" "$root/usr/lib/metier-lab" "$units/multi-user.target.wants"
    touch "$root/var/lib/systemd/linger/tester"
    install -m 755 "$HERE/guest.d/run" "$HERE/guest.d/engine" "$root/usr/lib/metier-lab/"
    install -m 644 "$HERE/guest.d/metier-lab.service" "$units/"
    ln -s ../metier-lab.service "$units/multi-user.target.wants/"
    ln -sf /lib/systemd/system/multi-user.target "$units/default.target"
    echo guest >"$root/etc/hostname"
    # There for those who ask for it (guest.d/engine); its user may be an ordinary one.
    rm -f "$units"/*.wants/{docker.service,docker.socket,containerd.service}
    chroot "$root" usermod --append --groups docker tester
    mkdir -p "$root/etc/docker"
    echo '{"exec-opts": ["native.cgroupdriver=systemd"], "bridge": "none", "iptables": false}' >"$root/etc/docker/daemon.json"
    # Without a terminal, logind would take the login for a background job.
    cat >"$root/etc/pam.d/runuser-l" <<'PAM'
auth    sufficient pam_rootok.so
session required   pam_limits.so
session required   pam_unix.so
session required   pam_systemd.so class=user type=tty
PAM
    # A machine that has been booted before skips the first-boot work.
    echo 6d65746965726c61626d65746965726c >"$root/etc/machine-id"
    printf '[Journal]\nStorage=volatile\n' >"$root/etc/systemd/journald.conf"
    # Whatever takes emulated seconds and no test looks at.
    for unit in getty.target serial-getty@ttyS0.service apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer \
        e2scrub_all.timer e2scrub_reap.service fstrim.timer motd-news.timer systemd-timesyncd.service systemd-networkd.service \
        systemd-update-utmp.service systemd-update-utmp-runlevel.service systemd-pstore.service systemd-binfmt.service \
        systemd-tmpfiles-clean.timer systemd-random-seed.service systemd-journal-flush.service systemd-modules-load.service \
        modprobe@.service kmod-static-nodes.service systemd-remount-fs.service dev-hugepages.mount dev-mqueue.mount \
        sys-kernel-debug.mount sys-kernel-tracing.mount sys-kernel-config.mount sys-fs-fuse-connections.mount; do
        ln -sf /dev/null "$units/$unit"
    done
}

part_is_up() { [ -d "$(image)" ]; }

part_env() { export_line METIER_LAB_GUEST "$HERE/guest"; }

part_check() {
    local files=$RUN/$PART/check
    rm -rf "$files"
    mkdir -p "$files"
    cat >"$files/guest-root" <<'SCRIPT'
#!/bin/sh -ex
id
cat /proc/self/cgroup
cat /sys/fs/cgroup/cgroup.controllers /sys/fs/cgroup/system.slice/memory.peak
SCRIPT
    cat >"$files/guest-user" <<'SCRIPT'
#!/bin/sh -ex
id
cat /proc/self/cgroup
test "$XDG_RUNTIME_DIR" = /run/user/1000
test -n "$DBUS_SESSION_BUS_ADDRESS"
systemd-run --user --scope -p Delegate=yes cat /proc/self/cgroup
echo kept >out/kept
SCRIPT
    chmod +x "$files"/guest-*
    "$HERE/guest" run --files "$files" --out "$files/result" || fail "the guest's scripts failed; see $files/result"
    grep -q '^0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-.*scope' "$files/result/user.log" ||
        fail "no scope of the user's own; $(last_lines "$files/result/user.log")"
    [ "$(cat "$files/result/out/kept")" = kept ] || fail "the out folder did not come back"
}
