# shellcheck shell=bash disable=SC2034 # lab reads PART_*
# The linter of the shell scripts, shellcheck.
PART_IS='shellcheck (installed, not started)'

part_install() { need_packages /usr/bin/shellcheck=shellcheck; }

part_is_up() { [ -x /usr/bin/shellcheck ]; }

part_env() { :; }

part_check() { shellcheck "$HERE/parts/shellcheck.sh" >/dev/null; }
