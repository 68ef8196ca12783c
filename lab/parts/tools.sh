# shellcheck shell=bash disable=SC2034 # lab reads PART_*
# The programs that benches compare metier with, and their load generators, in one folder for PATH.
PART_IS='stress-ng, hyperfine, GNU time, perf, psrecord, busybox, a parser of jtop (installed, not started)'

BIN=$LAB/tools/bin

part_install() {
    need_packages /usr/bin/stress-ng=stress-ng /usr/bin/hyperfine=hyperfine /usr/bin/time=time \
        /usr/bin/perf=linux-perf /usr/bin/python3=python3 /usr/bin/wrk=wrk \
        /var/lib/dpkg/info/python3-venv.list=python3-venv /var/lib/dpkg/info/busybox-static.list=busybox-static
    # psrecord is not in Debian. Its folder is renamed only when complete.
    if [ ! -x "$LAB/tools/venv/bin/psrecord" ]; then
        say "installing psrecord from PyPI"
        rm -rf "$LAB/tools/venv"
        mkdir -p "$LAB/tools"
        { /usr/bin/python3 -m venv "$LAB/tools/venv" && "$LAB/tools/venv/bin/pip" install -q psrecord; } \
            >"$LAB/tools/pip.log" 2>&1 || fail "psrecord; $(last_lines "$LAB/tools/pip.log")"
    fi
    # Only the parser of tegrastats lines, for a bench; jtop is not installed.
    if [ ! -e "$LAB/tools/jtop/tegra_parse.py" ]; then
        say "fetching jtop's parser from PyPI"
        rm -rf "$LAB/tools/jtop" "$LAB/tools/jtop.new"
        mkdir -p "$LAB/tools/jtop.new"
        { "$LAB/tools/venv/bin/pip" download -q --no-deps --no-binary :all: -d "$LAB/tools/jtop.new" jetson-stats==3.1.4 &&
            tar -xzf "$LAB/tools/jtop.new"/jetson-stats-3.1.4.tar.gz -C "$LAB/tools/jtop.new" --strip-components 3 \
                jetson-stats-3.1.4/jtop/core/tegra_parse.py; } \
            >"$LAB/tools/pip.log" 2>&1 || fail "jtop's parser; $(last_lines "$LAB/tools/pip.log")"
        mv "$LAB/tools/jtop.new" "$LAB/tools/jtop"
    fi
    mkdir -p "$BIN"
    ln -sf /usr/bin/{stress-ng,hyperfine,time,perf} /bin/busybox "$LAB/tools/venv/bin/"{psrecord,python3} "$BIN/"
}

part_is_up() { [ -x "$BIN/psrecord" ]; }

part_env() { export_line METIER_LAB_TOOLS "$BIN"; }

part_check() {
    local tool
    for tool in 'stress-ng --cpu 1 --cpu-ops 1' 'hyperfine -N -r 2 -w 0 true' 'time -v true' 'perf --version' \
        'busybox true' 'psrecord --help' 'python3 -c pass'; do
        # shellcheck disable=SC2086 # the words of the command
        timeout 60 "$BIN/"$tool >"$RUN/$PART/check.log" 2>&1 || fail "$tool; $(last_lines "$RUN/$PART/check.log")"
    done
}
