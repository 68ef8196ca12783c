//! The agent's page: the table of group metrics, and the writing of all metrics.

use std::sync::atomic::Ordering;

use metier_linux::cgroup::group_identity::CgroupKind as Whose;
use metier_prom::{MetricKind, MetricsPage, RenderedLabels, SampleValue};
use metier_types::{Bytes, Seconds};

use super::command_usage::ProcessScanner;
use super::group_tracker::{GroupKind, GroupTracker, MonitoredGroup};
use super::name_resolver::{NameResolver, NameTable};
use crate::process_usage;

/// A value of a group metric.
enum GroupMetricValue {
    Seconds(Option<Seconds>),
    Bytes(Option<Bytes>),
    Count(Option<u64>),
    Number(Option<f64>),
}

/// One row of the table: name after `metier_container_`, kind, help text, and how to read it.
type GroupMetricRow = (&'static str, MetricKind, &'static str, fn(&MonitoredGroup) -> GroupMetricValue);

/// Metrics of every group. A metric that the host does not offer is not on the page.
const GROUP_METRICS: [GroupMetricRow; 30] = [
    ("cpu_seconds_total", MetricKind::Counter, "CPU time, exact.", |g| {
        GroupMetricValue::Seconds(g.usage.cpu)
    }),
    (
        "cpu_user_seconds_total",
        MetricKind::Counter,
        "CPU time in programs; the split is by the scheduler's tick.",
        |g| GroupMetricValue::Seconds(g.usage.user),
    ),
    (
        "cpu_system_seconds_total",
        MetricKind::Counter,
        "CPU time in the kernel; the split is by the scheduler's tick.",
        |g| GroupMetricValue::Seconds(g.usage.system),
    ),
    ("cpu_limit_cores", MetricKind::Gauge, "CPU limit in cores.", |g| {
        GroupMetricValue::Number(g.usage.cpu_limit)
    }),
    ("cpu_periods_total", MetricKind::Counter, "Periods of the CPU limit in which the group ran.", |g| {
        GroupMetricValue::Count(g.usage.periods)
    }),
    (
        "cpu_throttled_periods_total",
        MetricKind::Counter,
        "Periods in which the CPU limit throttled the group.",
        |g| GroupMetricValue::Count(g.usage.throttled_periods),
    ),
    (
        "cpu_throttled_seconds_total",
        MetricKind::Counter,
        "Time for which the CPU limit throttled the group.",
        |g| GroupMetricValue::Seconds(g.usage.throttled),
    ),
    ("cpu_pressure_seconds_total", MetricKind::Counter, "Time in which some task waited for a core.", |g| {
        GroupMetricValue::Seconds(g.usage.pressure[0])
    }),
    (
        "memory_pressure_seconds_total",
        MetricKind::Counter,
        "Time in which some task waited for memory.",
        |g| GroupMetricValue::Seconds(g.usage.pressure[1]),
    ),
    ("io_pressure_seconds_total", MetricKind::Counter, "Time in which some task waited for IO.", |g| {
        GroupMetricValue::Seconds(g.usage.pressure[2])
    }),
    ("memory_bytes", MetricKind::Gauge, "Memory charged.", |g| GroupMetricValue::Bytes(g.usage.memory)),
    ("memory_peak_bytes", MetricKind::Gauge, "High-water mark of memory charged.", |g| {
        GroupMetricValue::Bytes(g.usage.memory_peak)
    }),
    ("memory_anonymous_bytes", MetricKind::Gauge, "Anonymous memory.", |g| {
        GroupMetricValue::Bytes(g.usage.anonymous)
    }),
    ("memory_file_bytes", MetricKind::Gauge, "Page cache.", |g| GroupMetricValue::Bytes(g.usage.file)),
    ("memory_working_set_bytes", MetricKind::Gauge, "Memory without inactive page cache.", |g| {
        GroupMetricValue::Bytes(g.usage.working_set)
    }),
    ("memory_limit_bytes", MetricKind::Gauge, "Memory limit.", |g| {
        GroupMetricValue::Bytes(g.usage.memory_limit)
    }),
    ("memory_major_faults_total", MetricKind::Counter, "Page faults that waited for IO.", |g| {
        GroupMetricValue::Count(g.usage.major_faults)
    }),
    ("memory_oom_kills_total", MetricKind::Counter, "Processes killed for lack of memory.", |g| {
        GroupMetricValue::Count(g.usage.oom_kills)
    }),
    ("io_read_bytes_total", MetricKind::Counter, "Bytes read from devices.", |g| {
        GroupMetricValue::Bytes(g.usage.read)
    }),
    (
        "io_written_bytes_total",
        MetricKind::Counter,
        "Bytes written to devices; with cgroup version 1 without writes through the page cache.",
        |g| GroupMetricValue::Bytes(g.usage.written),
    ),
    ("processes", MetricKind::Gauge, "Processes.", |g| GroupMetricValue::Count(g.usage.processes)),
    ("threads", MetricKind::Gauge, "Threads.", |g| GroupMetricValue::Count(g.usage.threads)),
    ("network_receive_bytes_total", MetricKind::Counter, "Bytes received, without loopback.", |g| {
        received_count(g, 0)
    }),
    ("network_receive_packets_total", MetricKind::Counter, "Packets received.", |g| received_count(g, 1)),
    ("network_receive_errors_total", MetricKind::Counter, "Packets received in error.", |g| {
        received_count(g, 2)
    }),
    ("network_receive_dropped_total", MetricKind::Counter, "Packets received and dropped.", |g| {
        received_count(g, 3)
    }),
    ("network_transmit_bytes_total", MetricKind::Counter, "Bytes sent, without loopback.", |g| {
        sent_count(g, 0)
    }),
    ("network_transmit_packets_total", MetricKind::Counter, "Packets sent.", |g| sent_count(g, 1)),
    ("network_transmit_errors_total", MetricKind::Counter, "Packets not sent for an error.", |g| {
        sent_count(g, 2)
    }),
    ("network_transmit_dropped_total", MetricKind::Counter, "Packets dropped instead of sent.", |g| {
        sent_count(g, 3)
    }),
];

fn received_count(group: &MonitoredGroup, at: usize) -> GroupMetricValue {
    GroupMetricValue::Count(group.traffic.map(|traffic| traffic.received[at]))
}

fn sent_count(group: &MonitoredGroup, at: usize) -> GroupMetricValue {
    GroupMetricValue::Count(group.traffic.map(|traffic| traffic.sent[at]))
}

/// Writes the labels of groups whose names are settled; they then stay as they are.
pub fn update_group_labels(groups: &mut GroupTracker, book: &NameTable) {
    for group in groups.iter_mut().filter(|group| group.labels.is_none()) {
        let is_settled = match &group.named.kind {
            Whose::Container(id) | Whose::Pod(id) => book.is_settled(id),
            Whose::Run(_) | Whose::Unit(_) => true,
        };
        if is_settled {
            group.labels = Some(group_labels(group, book));
        }
    }
}

/// Twelve digits identify a container, as in the output of its engine.
pub fn short_container_id(id: &str) -> &str {
    if id.len() == 64 { id.get(..12).unwrap_or(id) } else { id }
}

fn group_labels(group: &MonitoredGroup, book: &NameTable) -> RenderedLabels {
    let named = &group.named;
    let pod = named.pod.as_deref().and_then(|uid| book.pod(uid));
    match &named.kind {
        Whose::Container(id) => {
            let name = book.container(id);
            let text = |of: fn(&super::name_resolver::ContainerName) -> &Option<String>| {
                name.and_then(|name| of(name).as_deref())
            };
            RenderedLabels::new()
                .with_label("id", short_container_id(id))
                .with_label("container", text(|name| &name.container).unwrap_or(short_container_id(id)))
                .with_optional_label("pod", text(|name| &name.pod).or_else(|| pod?.pod.as_deref()))
                .with_optional_label(
                    "namespace",
                    text(|name| &name.namespace).or_else(|| pod?.namespace.as_deref()),
                )
                .with_optional_label("image", text(|name| &name.image))
                .with_optional_label("run_id", text(|name| &name.run_id).or_else(|| pod?.run_id.as_deref()))
        }
        Whose::Pod(uid) => RenderedLabels::new()
            .with_label("uid", uid)
            .with_optional_label("pod", pod.and_then(|pod| pod.pod.as_deref()))
            .with_optional_label("namespace", pod.and_then(|pod| pod.namespace.as_deref()))
            .with_optional_label("run_id", pod.and_then(|pod| pod.run_id.as_deref())),
        Whose::Run(run) => RenderedLabels::new().with_label("run_id", run),
        // Per-user systemd managers have units of the same names, so the path is a label too.
        Whose::Unit(unit) => RenderedLabels::new().with_label("unit", unit).with_label("path", &group.path),
    }
}

pub fn write_groups(groups: &GroupTracker, page: &mut MetricsPage) {
    for sort in GroupKind::ALL {
        let members: Vec<(&MonitoredGroup, &RenderedLabels)> =
            groups.groups_of_kind(sort).filter_map(|group| Some((group, group.labels.as_ref()?))).collect();
        if members.is_empty() {
            continue;
        }
        let mut name = String::with_capacity(64);
        for (suffix, kind, help, figure) in GROUP_METRICS {
            name.clear();
            for part in ["metier_", sort.word(), "_", suffix] {
                name.push_str(part);
            }
            let mut family = page.begin_family(&name, kind, help);
            for (group, labels) in &members {
                match figure(group) {
                    GroupMetricValue::Seconds(value) => family.add_optional_sample(*labels, value),
                    GroupMetricValue::Bytes(value) => family.add_optional_sample(*labels, value),
                    GroupMetricValue::Count(value) => family.add_optional_sample(*labels, value),
                    GroupMetricValue::Number(value) => family.add_optional_sample(*labels, value),
                }
            }
        }
        let name = format!("metier_{}_info", sort.word());
        let mut family = page.begin_family(&name, MetricKind::Info, "Facts from the group's path; always 1.");
        for (group, labels) in
            members.iter().filter(|(group, _)| group.named.runtime.is_some() || group.named.quality.is_some())
        {
            let mut more = RenderedLabels::new();
            more = more
                .with_optional_label("runtime", group.named.runtime)
                .with_optional_label("qos", group.named.quality);
            family.add_sample(&labels.join(&more), 1u64);
        }
    }
}

/// Writes the leading commands.
pub fn write_processes(processes: &ProcessScanner, page: &mut MetricsPage) {
    let commands: Vec<(RenderedLabels, super::command_usage::CommandUsage)> = processes
        .commands()
        .into_iter()
        .map(|command| {
            let pid = command.pid.map(|pid| pid.to_string());
            (
                RenderedLabels::new()
                    .with_label("command", &command.name)
                    .with_optional_label("pid", pid.as_deref()),
                command,
            )
        })
        .collect();
    fn write_family<V: SampleValue>(
        page: &mut MetricsPage,
        commands: &[(RenderedLabels, super::command_usage::CommandUsage)],
        (name, kind, help): (&str, MetricKind, &str),
        value: fn(&super::command_usage::CommandUsage) -> Option<V>,
    ) {
        let mut family = page.begin_family(name, kind, help);
        commands.iter().for_each(|(labels, command)| family.add_optional_sample(labels, value(command)));
    }
    let user = "CPU time in programs, by command.";
    write_family(
        page,
        &commands,
        ("metier_process_cpu_user_seconds_total", MetricKind::Counter, user),
        |c| Some(c.user),
    );
    let system = "CPU time in the kernel, by command.";
    write_family(
        page,
        &commands,
        ("metier_process_cpu_system_seconds_total", MetricKind::Counter, system),
        |c| Some(c.system),
    );
    let resident = "Resident memory, by command; shared pages count for each process.";
    write_family(page, &commands, ("metier_process_resident_bytes", MetricKind::Gauge, resident), |c| {
        Some(c.resident)
    });
    let read = "Bytes read from devices, by command; reads of ended children included.";
    write_family(page, &commands, ("metier_process_io_read_bytes_total", MetricKind::Counter, read), |c| {
        c.io.map(|io| io.0)
    });
    let written = "Bytes written to devices, by command; writes of ended children included.";
    write_family(
        page,
        &commands,
        ("metier_process_io_written_bytes_total", MetricKind::Counter, written),
        |c| c.io.map(|io| io.1),
    );
    write_family(
        page,
        &commands,
        ("metier_process_instances", MetricKind::Gauge, "Processes, by command."),
        |c| Some(c.processes),
    );
    write_family(
        page,
        &commands,
        ("metier_process_threads", MetricKind::Gauge, "Threads, by command."),
        |c| Some(c.threads),
    );
    page.add_single("metier_processes", MetricKind::Gauge, "Processes of the node.", processes.total);
}

/// The agent's metrics about itself.
#[derive(Debug, Clone, Default)]
pub struct AgentStats {
    pub version: String,
    /// Start time, in seconds of Unix time.
    pub started: f64,
    pub pages: u64,
    /// Total time spent on reading and writing pages.
    pub took: Seconds,
    /// Size of the previous page.
    pub last_bytes: u64,
}

/// Writes the agent's own cost, and counts of everything left out.
pub fn write_agent_stats(
    own: &AgentStats,
    groups: &GroupTracker,
    names: &NameResolver,
    left_out: &[(&str, u64)],
    page: &mut MetricsPage,
) {
    let used = process_usage::read_process_usage();
    page.begin_family("metier_agent_build_info", MetricKind::Info, "Version of the agent; always 1.")
        .add_sample(&[("version", own.version.as_str())], 1u64);
    let start = "When the agent started, Unix time.";
    page.add_single("metier_agent_start_time_seconds", MetricKind::Gauge, start, own.started);
    page.add_single(
        "metier_agent_cpu_seconds_total",
        MetricKind::Counter,
        "CPU time of the agent.",
        used.cpu_seconds,
    );
    let resident = "Resident memory of the agent.";
    page.add_optional_single("metier_agent_resident_bytes", MetricKind::Gauge, resident, used.resident_bytes);
    page.add_optional_single(
        "metier_agent_open_files",
        MetricKind::Gauge,
        "Open files of the agent.",
        used.open_files,
    );
    page.add_single("metier_agent_scrapes_total", MetricKind::Counter, "Pages made.", own.pages);
    let took = "Time spent on reading the sources of this page.";
    page.add_single("metier_agent_scrape_duration_seconds", MetricKind::Gauge, took, own.took);
    page.add_single(
        "metier_agent_page_bytes",
        MetricKind::Gauge,
        "Size of the previous page.",
        own.last_bytes,
    );
    let mut family =
        page.begin_family("metier_agent_groups", MetricKind::Gauge, "Groups on this page, by kind.");
    for sort in GroupKind::ALL {
        family.add_sample(
            &[("kind", sort.word())],
            groups.groups_of_kind(sort).filter(|group| group.labels.is_some()).count(),
        );
    }
    let mut family = page.begin_family(
        "metier_agent_left_out",
        MetricKind::Gauge,
        "Items left out of this page because of a bound, by kind.",
    );
    for sort in GroupKind::ALL {
        let count = groups.left_out().get(sort.word()).copied().unwrap_or(0);
        family.add_sample(&[("kind", sort.word())], count);
    }
    family.add_sample(&[("kind", "folder")], groups.left_out().get("folder").copied().unwrap_or(0));
    for (kind, count) in left_out {
        family.add_sample(&[("kind", *kind)], *count);
    }
    let mut family = page.begin_family(
        "metier_agent_name_lookups_total",
        MetricKind::Counter,
        "Lookups at a source of names.",
    );
    for asked in names.source_stats() {
        family.add_sample(&[("source", asked.source)], asked.times.load(Ordering::Relaxed));
    }
    let mut family = page.begin_family(
        "metier_agent_name_failures_total",
        MetricKind::Counter,
        "Failed lookups at a source of names.",
    );
    for asked in names.source_stats() {
        family.add_sample(&[("source", asked.source)], asked.failures.load(Ordering::Relaxed));
    }
}
