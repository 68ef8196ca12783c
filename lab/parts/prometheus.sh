# shellcheck shell=bash disable=SC2034 # lab reads PART_*
# Prometheus, which scrapes itself and a node_exporter every second.
PART_IS='Prometheus server and node_exporter'

part_install() {
    need_packages /usr/bin/prometheus=prometheus /usr/bin/promtool=prometheus \
        /usr/bin/prometheus-node-exporter=prometheus-node-exporter /usr/bin/curl=curl
}

part_up() {
    local server exporter
    free_port port.prometheus
    free_port port.node_exporter
    server=127.0.0.1:$(recall port.prometheus)
    exporter=127.0.0.1:$(recall port.node_exporter)
    # Samples up to a year old are accepted, so that a test can write history and query it at once.
    cat >"$RUN/$PART/prometheus.yml" <<CONF
global: {scrape_interval: 1s, evaluation_interval: 1s}
storage: {tsdb: {out_of_order_time_window: 365d}}
scrape_configs:
  - {job_name: prometheus, static_configs: [{targets: ["$server"]}]}
  - {job_name: node, static_configs: [{targets: ["$exporter"]}]}
CONF
    start node_exporter prometheus-node-exporter --web.listen-address="$exporter"
    start prometheus prometheus --config.file="$RUN/$PART/prometheus.yml" \
        --storage.tsdb.path="$RUN/$PART/data" --storage.tsdb.retention.time=10y \
        --web.listen-address="$server" --web.enable-lifecycle --web.enable-admin-api \
        --web.enable-remote-write-receiver
    wait_for 60 "node_exporter to answer on $exporter" node_exporter curl -fsS -m 5 "http://$exporter/metrics"
    wait_for 60 "Prometheus to answer on $server" prometheus curl -fsS -m 5 "http://$server/-/ready"
    wait_for 30 "the first scrapes" prometheus both_scraped
}

both_scraped() {
    curl -fsS -m 5 "http://127.0.0.1:$(recall port.prometheus)/api/v1/query" --data-urlencode 'query=sum(up)' |
        grep '"2"\]' >/dev/null
}

part_env() {
    export_line METIER_LAB_PROMETHEUS "http://127.0.0.1:$(recall port.prometheus)"
    export_line METIER_LAB_PROMETHEUS_DATA "$RUN/$PART/data"
    export_line METIER_LAB_NODE_EXPORTER "http://127.0.0.1:$(recall port.node_exporter)"
}

part_check() {
    both_scraped || fail "Prometheus does not see both targets up"
    curl -fsS "http://127.0.0.1:$(recall port.node_exporter)/metrics" | grep '^node_cpu_seconds_total' >/dev/null ||
        fail "node_exporter shows no processor time"
}
