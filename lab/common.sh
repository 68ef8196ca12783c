# shellcheck shell=bash
# Functions that all parts of the lab use: messages, records, packages, processes, waits.
#
# Sourced by `lab` and `guest`. The caller sets PART before using anything that records,
# starts or stops: all state of a part is below $RUN/$PART, one small file per value.

LAB=${METIER_LAB_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/metier-lab}
RUN=$LAB/run
PART=${PART:-lab}

# Exit code of a part that this host does not allow (as in automake).
SKIPPED=77

say() { echo "lab: $*" >&2; }
fail() {
    say "FAILED $PART: $*"
    exit 1
}
skip() { # reason, what would make it work
    say "SKIP $PART: $1; fix: $2"
    echo "$1" >"$RUN/$PART.skip"
    exit "$SKIPPED"
}

# --- records --------------------------------------------------------------------------------

remember() { echo "$2" >"$RUN/$PART/$1"; }
recall() { cat "$RUN/$PART/$1"; }
export_line() { # name, value: quoted so that any shell reads back the same bytes
    printf "export %s='%s'\n" "$1" "${2//\'/\'\\\'\'}"
}

# --- privileges and packages ----------------------------------------------------------------

is_root() { [ "$(id -u)" = 0 ]; }
can_be_root() { is_root || sudo -n true 2>/dev/null; }
as_root() { if is_root; then "$@"; else sudo -n "$@"; fi; }

# Installs the packages whose file is missing: pairs of FILE=PACKAGE.
need_packages() {
    local pair missing=()
    for pair in "$@"; do
        [ -e "${pair%%=*}" ] || missing+=("${pair#*=}")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    can_be_root || skip "not installed and not root: ${missing[*]}" \
        "apt-get install ${missing[*]}, or let sudo work without a password"
    say "installing ${missing[*]}"
    # One installation at a time: dpkg's own lock does not cover apt's package lists.
    (
        flock 8
        as_root apt-get update -q || say "apt-get update failed; trying with the lists at hand"
        without_services apt-get install -y -q --no-install-recommends \
            -o DPkg::Lock::Timeout=300 "${missing[@]}"
    ) 8<"$RUN/apt.lock" >"$LAB/apt-$PART.log" 2>&1 || fail "apt-get install ${missing[*]}; $(last_lines "$LAB/apt-$PART.log")"
}

# Debian starts a service when it is installed, but the lab needs only the programs. Both starters
# are hidden in a private mount namespace. This leaves nothing behind even if the script is killed,
# unlike a temporary policy-rc.d.
without_services() {
    # shellcheck disable=SC2016 # the inner shell expands it
    as_root unshare --mount env DEBIAN_FRONTEND=noninteractive sh -c '
        for starter in /usr/sbin/invoke-rc.d /usr/bin/deb-systemd-invoke; do
            [ ! -e $starter ] || mount --bind /bin/true $starter
        done
        exec "$@"' sh "$@"
}

# The mirror in this host's apt sources.
debian_mirror() {
    cat /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list.d/*.sources \
        /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
        awk '/^URIs:/ { print $2; exit }
             /^deb / { for (i = 2; i <= NF; i++) if ($i ~ /^https?:/) { print $i; exit } }'
}

# --- processes ------------------------------------------------------------------------------

# Start time of a process in clock ticks since boot; fails if it has ended or is a zombie.
born() { # pid
    local stat fields
    { stat=$(<"/proc/$1/stat"); } 2>/dev/null || return 1
    # The name may contain spaces and brackets: count the fields after it.
    read -ra fields <<<"${stat##*) }"
    [ "${fields[0]}" != Z ] && echo "${fields[19]}"
}

# A pid may be reused; with start time and boot id it is unique.
identity() { # pid
    local ticks
    ticks=$(born "$1") && echo "$1 $ticks $(</proc/sys/kernel/random/boot_id)"
}

start() { # name, command...
    local name=$1 pid
    shift
    # Descriptors 8 and 9 are locks; a daemon that inherited one would hold it for ever.
    setsid "$@" >"$RUN/$PART/$name.log" 2>&1 </dev/null 8>&- 9>&- &
    pid=$!
    identity "$pid" >"$RUN/$PART/$name.proc" || fail "$name ended at once; $(last_lines "$RUN/$PART/$name.log")"
}

alive() { # name
    local pid _
    [ -s "$RUN/$PART/$1.proc" ] || return 1
    read -r pid _ <"$RUN/$PART/$1.proc"
    [ "$(identity "$pid")" = "$(<"$RUN/$PART/$1.proc")" ]
}

stop() { # name [signal [seconds]]: ask, wait, then insist
    local name=$1 signal=${2:-TERM} seconds=${3:-15} pid tenth _
    if alive "$name"; then
        read -r pid _ <"$RUN/$PART/$name.proc"
        kill -s "$signal" "$pid"
        for ((tenth = 0; tenth < seconds * 10; tenth++)); do
            alive "$name" || break
            sleep 0.1
        done
        if alive "$name"; then
            say "$name (pid $pid) did not end within $seconds s of SIG$signal; killing it"
            kill -s KILL "$pid"
        fi
    fi
    rm -f "$RUN/$PART/$name.proc"
}

# --- waits and ports ------------------------------------------------------------------------

last_lines() { # log
    echo "log: $1; its last lines:"
    tail -n 15 "$1" 2>/dev/null | sed 's/^/    /'
}

wait_for() { # seconds, what, process, command...: until the command, which must not hang, succeeds
    local limit=$1 what=$2 process=$3 deadline=$((SECONDS + $1))
    shift 3
    say "waiting for $what (at most $limit s)"
    until "$@" >/dev/null 2>&1; do
        alive "$process" || fail "$process ended while waiting for $what; $(last_lines "$RUN/$PART/$process.log")"
        ((SECONDS < deadline)) || fail "no $what within $limit s; $(last_lines "$RUN/$PART/$process.log")"
        sleep 0.2
    done
}

# An unused loopback port that no other part has. It lies below the kernel's ephemeral range, so
# that no outgoing connection takes it before the server binds.
free_port() { # record
    local port
    exec 7<"$RUN/ports.lock"
    flock 7
    while :; do
        port=$((RANDOM % 10000 + 20000))
        grep -qsx "$port" "$RUN"/*/port "$RUN"/*/port.* && continue
        (: <>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
    done
    remember "$1" "$port"
    exec 7<&-
}

# Anything mounted below a folder would survive its removal, or be emptied by it.
umount_below() { # folder
    awk -v under="$1/" 'index($2, under) == 1 { print $2 }' /proc/mounts | sort -r | xargs -r -n 1 umount -l
}

# Empty cgroups left behind would appear in tests of this host. rmdir spares the others.
forget_cgroups() { # name at the top of each hierarchy
    local top
    for top in "/sys/fs/cgroup/$1" /sys/fs/cgroup/*/"$1"; do
        [ ! -d "$top" ] || find "$top" -depth -type d -exec rmdir {} + 2>/dev/null || true
    done
}

# --- container engines ------------------------------------------------------------------------

needs_containers() {
    local group=/sys/fs/cgroup/memory
    [ -d "$group" ] || group=/sys/fs/cgroup
    { mkdir "$group/metier-lab-probe" && rmdir "$group/metier-lab-probe"; } 2>/dev/null ||
        skip "cannot make control groups in $group" "run where /sys/fs/cgroup is mounted writable"
    unshare --mount --pid --net --ipc --uts --fork true 2>/dev/null ||
        skip "new namespaces are refused" "run outside a container, or in a privileged one"
}

# No images can be pulled: `busybox:local` is made from Debian's static busybox.
busybox_archive() { # folder to make it in
    mkdir -p "$1"/{bin,dev,etc,proc,sys,tmp}
    chmod 1777 "$1/tmp"
    echo 'root:x:0:0:root:/:/bin/sh' >"$1/etc/passwd"
    cp /bin/busybox "$1/bin/"
    busybox --list | while read -r applet; do
        [ "$applet" = busybox ] || ln -s busybox "$1/bin/$applet"
    done
    tar -C "$1" -c .
    rm -rf "$1"
}
