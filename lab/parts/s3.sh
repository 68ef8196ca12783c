# shellcheck shell=bash disable=SC2034 # lab reads PART_*
# An S3-compatible store: moto's server, in memory, with one bucket. Any key and secret are
# accepted; without them only public objects are accessible.
PART_IS='an S3-compatible store (moto) on a loopback port, with the bucket "metier"'

VENV=$LAB/s3/venv

part_install() {
    need_packages /usr/bin/python3=python3 /var/lib/dpkg/info/python3-venv.list=python3-venv /usr/bin/curl=curl
    # The folder is renamed only when complete.
    if [ ! -x "$VENV/bin/moto_server" ]; then
        say "installing moto from PyPI"
        rm -rf "$VENV"
        mkdir -p "$LAB/s3"
        { /usr/bin/python3 -m venv "$VENV" && "$VENV/bin/pip" install -q 'moto[server,s3]'; } \
            >"$LAB/s3/pip.log" 2>&1 || fail "moto; $(last_lines "$LAB/s3/pip.log")"
    fi
}

part_up() {
    local port
    free_port port.s3
    port=$(recall port.s3)
    start s3 "$VENV/bin/moto_server" -H 127.0.0.1 -p "$port"
    wait_for 60 "the S3 store" s3 curl -fsS -o /dev/null "http://127.0.0.1:$port/moto-api/"
    curl -fsS -o /dev/null -X PUT "http://127.0.0.1:$port/metier" || fail "the bucket could not be made"
}

part_env() { export_line METIER_LAB_S3 "http://127.0.0.1:$(recall port.s3)"; }

part_check() {
    local url sign
    url=http://127.0.0.1:$(recall port.s3)/metier/check
    sign=(-fsS --aws-sigv4 aws:amz:us-east-1:s3 --user key:secret)
    curl "${sign[@]}" -o /dev/null -X PUT -H 'Content-Type: text/plain' --data-binary hello "$url" ||
        fail "an object could not be put"
    [ "$(curl "${sign[@]}" "$url")" = hello ] || fail "an object is not what was put"
}
