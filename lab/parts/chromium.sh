# shellcheck shell=bash disable=SC2034 # lab reads PART_*
# Chromium and its WebDriver. Each test starts its own. Root needs --no-sandbox.
PART_IS='Chromium and chromedriver (installed, not started)'

part_install() { need_packages /usr/bin/chromium=chromium /usr/bin/chromedriver=chromium-driver; }

part_is_up() { [ -x /usr/bin/chromium ]; }

part_env() {
    export_line METIER_LAB_CHROMIUM /usr/bin/chromium
    export_line METIER_LAB_CHROMEDRIVER /usr/bin/chromedriver
}

part_check() {
    local home page
    home=$(mktemp -d)
    page=$(timeout 120 chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$home" \
        --dump-dom 'data:text/html,<script>document.write(6*7)</script>' 2>"$RUN/$PART/chromium.log") || true
    rm -rf "$home"
    [[ $page == *42* ]] || fail "no page rendered; $(last_lines "$RUN/$PART/chromium.log")"
    chromedriver --version >/dev/null
}
