# shellcheck shell=bash disable=SC2034 # lab reads PART_*
# PostgreSQL: a new cluster on every `up`, on a free loopback port, with fsync on so that crash
# tests are meaningful.
PART_IS='PostgreSQL server with an empty database'

programs() { dirname "$(find /usr/lib/postgresql/*/bin/postgres 2>/dev/null | sort -V | tail -n 1)"; }

# The server refuses to run as root.
AS_OWNER=()
! is_root || AS_OWNER=(setpriv --reuid=postgres --regid=postgres --init-groups --)

part_install() {
    [ ! -x "$(programs)/postgres" ] || return 0
    # Debian would create its own cluster and start it at every boot.
    local no_cluster=/etc/postgresql-common/createcluster.d/metier-lab.conf code=0
    if can_be_root; then
        as_root mkdir -p "$(dirname "$no_cluster")"
        echo 'create_main_cluster = false' | as_root tee "$no_cluster" >/dev/null
    fi
    (need_packages /usr/lib/postgresql/15/bin/postgres=postgresql-15) || code=$?
    ! can_be_root || as_root rm -f "$no_cluster"
    [ "$code" = 0 ] || exit "$code"
}

part_up() {
    local bin data port
    bin=$(programs)
    # Not below the lab's folder: the postgres user may not be able to enter a home folder.
    data=$(mktemp -d /var/tmp/metier-lab-postgres.XXXXXX)
    remember data "$data"
    ! is_root || chown postgres:postgres "$data"
    free_port port
    port=$(recall port)
    # initdb complains unless its user can enter the working directory.
    cd "$data" || fail "cannot enter $data"
    "${AS_OWNER[@]}" "$bin/initdb" -D "$data" -U metier --auth=trust --encoding=UTF8 --locale=C.UTF-8 \
        >"$RUN/$PART/initdb.log" 2>&1 || fail "initdb; $(last_lines "$RUN/$PART/initdb.log")"
    cat >>"$data/postgresql.conf" <<CONF
listen_addresses = '127.0.0.1'
port = $port
unix_socket_directories = ''
shared_buffers = 32MB
max_connections = 50
max_wal_size = 256MB
jit = off
CONF
    start postgres "${AS_OWNER[@]}" "$bin/postgres" -D "$data"
    wait_for 60 "PostgreSQL to answer on port $port" postgres "$bin/pg_isready" -q -h 127.0.0.1 -p "$port"
    "$bin/createdb" -h 127.0.0.1 -p "$port" -U metier metier
}

part_down() {
    local data
    [ -e "$RUN/$PART/data" ] || return 0
    data=$(recall data)
    # INT: do not wait for clients to disconnect.
    stop postgres INT
    # A killed server leaves its shared memory behind; its pid file has the id.
    if [ -e "$data/postmaster.pid" ]; then
        ipcrm -m "$(awk 'NR == 7 { print $2 }' "$data/postmaster.pid")" 2>/dev/null || true
    fi
    rm -rf "$data"
}

part_env() {
    export_line METIER_LAB_POSTGRES "postgres://metier@127.0.0.1:$(recall port)/metier"
}

part_check() {
    local answer
    answer=$("$(programs)/psql" -XAtq -v ON_ERROR_STOP=1 "postgres://metier@127.0.0.1:$(recall port)/metier" <<'SQL'
create temporary table seen (n int);
insert into seen select generate_series(1, 100);
select sum(n) || ' ' || current_setting('fsync') from seen;
SQL
    )
    [ "$answer" = '5050 on' ] || fail "asked for '5050 on', got '$answer'"
}
