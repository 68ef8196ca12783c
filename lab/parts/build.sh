# shellcheck shell=bash disable=SC2034 # lab reads PART_*
# Build tools beside Rust: a C compiler (SQLite is compiled in), and Node.js with npm for the page.
PART_IS='C compiler, Node.js and npm (installed, not started)'

part_install() {
    local missing=(/usr/bin/cc=gcc /usr/lib/x86_64-linux-gnu/libc.so=libc6-dev)
    [ -e /usr/include/stdio.h ] && missing=(/usr/bin/cc=gcc)
    # Any Node.js from 18.20 works; Debian's is installed if there is none.
    command -v npm >/dev/null || missing+=(/usr/bin/node=nodejs /usr/bin/npm=npm)
    need_packages "${missing[@]}"
}

part_is_up() { command -v cc >/dev/null && command -v npm >/dev/null; }

part_env() { :; }

part_check() { npm --version >/dev/null && cc --version >/dev/null; }
