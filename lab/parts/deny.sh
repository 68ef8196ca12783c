# shellcheck shell=bash disable=SC2034 # lab reads PART_*
# cargo-deny checks licences, banned crates and sources. Built once from its published source.
PART_IS='cargo-deny (built once, not started)'

DENY=$LAB/cargo/bin/cargo-deny

part_install() {
    [ ! -x "$DENY" ] || return 0
    say "building cargo-deny (once; several minutes on two cores)"
    nice cargo install cargo-deny --locked --quiet --root "$LAB/cargo" >"$LAB/cargo-deny.log" 2>&1 ||
        fail "cargo install cargo-deny; $(last_lines "$LAB/cargo-deny.log")"
}

part_is_up() { [ -x "$DENY" ]; }

part_env() { export_line METIER_LAB_DENY "$DENY"; }

part_check() { "$DENY" --version >/dev/null; }
