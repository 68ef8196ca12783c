//! The agent's page: the table of what a group shows, and the writing of everything.

use std::sync::atomic::Ordering;

use metier_linux::cgroup::naming::Kind as Whose;
use metier_prom::{Kind, Labels, Page, Value};
use metier_types::{Bytes, Seconds};

use super::groups::{Group, Groups, Sort};
use super::names::{Book, Names};
use super::processes::Processes;
use crate::process;

/// A figure of a group.
enum Figure {
    Seconds(Option<Seconds>),
    Bytes(Option<Bytes>),
    Count(Option<u64>),
    Number(Option<f64>),
}

/// One row of the table: what stands behind `metier_container_`, its kind, its meaning, and where it is.
type Row = (&'static str, Kind, &'static str, fn(&Group) -> Figure);

/// What every group shows. Those that the host does not offer are not on the page.
const ROWS: [Row; 30] = [
    ("cpu_seconds_total", Kind::Counter, "CPU time, exact.", |g| Figure::Seconds(g.usage.cpu)),
    (
        "cpu_user_seconds_total",
        Kind::Counter,
        "CPU time in programs; the split is by the scheduler's tick.",
        |g| Figure::Seconds(g.usage.user),
    ),
    (
        "cpu_system_seconds_total",
        Kind::Counter,
        "CPU time in the kernel; the split is by the scheduler's tick.",
        |g| Figure::Seconds(g.usage.system),
    ),
    ("cpu_limit_cores", Kind::Gauge, "CPU limit in cores.", |g| Figure::Number(g.usage.cpu_limit)),
    ("cpu_periods_total", Kind::Counter, "Periods of the CPU limit in which there was work.", |g| {
        Figure::Count(g.usage.periods)
    }),
    ("cpu_throttled_periods_total", Kind::Counter, "Periods in which the CPU limit held it back.", |g| {
        Figure::Count(g.usage.throttled_periods)
    }),
    ("cpu_throttled_seconds_total", Kind::Counter, "Time for which the CPU limit held it back.", |g| {
        Figure::Seconds(g.usage.throttled)
    }),
    ("cpu_pressure_seconds_total", Kind::Counter, "Time in which some task waited for a core.", |g| {
        Figure::Seconds(g.usage.pressure[0])
    }),
    ("memory_pressure_seconds_total", Kind::Counter, "Time in which some task waited for memory.", |g| {
        Figure::Seconds(g.usage.pressure[1])
    }),
    ("io_pressure_seconds_total", Kind::Counter, "Time in which some task waited for IO.", |g| {
        Figure::Seconds(g.usage.pressure[2])
    }),
    ("memory_bytes", Kind::Gauge, "Memory charged.", |g| Figure::Bytes(g.usage.memory)),
    ("memory_peak_bytes", Kind::Gauge, "High-water mark of memory charged.", |g| {
        Figure::Bytes(g.usage.memory_peak)
    }),
    ("memory_anonymous_bytes", Kind::Gauge, "Anonymous memory.", |g| Figure::Bytes(g.usage.anonymous)),
    ("memory_file_bytes", Kind::Gauge, "Page cache.", |g| Figure::Bytes(g.usage.file)),
    ("memory_working_set_bytes", Kind::Gauge, "Memory without page cache that was not used lately.", |g| {
        Figure::Bytes(g.usage.working_set)
    }),
    ("memory_limit_bytes", Kind::Gauge, "Memory limit.", |g| Figure::Bytes(g.usage.memory_limit)),
    ("memory_major_faults_total", Kind::Counter, "Page faults that waited for IO.", |g| {
        Figure::Count(g.usage.major_faults)
    }),
    ("memory_oom_kills_total", Kind::Counter, "Processes killed for want of memory.", |g| {
        Figure::Count(g.usage.oom_kills)
    }),
    ("io_read_bytes_total", Kind::Counter, "Bytes that devices read.", |g| Figure::Bytes(g.usage.read)),
    (
        "io_written_bytes_total",
        Kind::Counter,
        "Bytes that devices wrote; with cgroup version 1 without what went through the page cache.",
        |g| Figure::Bytes(g.usage.written),
    ),
    ("processes", Kind::Gauge, "Processes.", |g| Figure::Count(g.usage.processes)),
    ("threads", Kind::Gauge, "Threads.", |g| Figure::Count(g.usage.threads)),
    ("network_receive_bytes_total", Kind::Counter, "Bytes received, without loopback.", |g| received(g, 0)),
    ("network_receive_packets_total", Kind::Counter, "Packets received.", |g| received(g, 1)),
    ("network_receive_errors_total", Kind::Counter, "Packets received in error.", |g| received(g, 2)),
    ("network_receive_dropped_total", Kind::Counter, "Packets received and dropped.", |g| received(g, 3)),
    ("network_transmit_bytes_total", Kind::Counter, "Bytes sent, without loopback.", |g| sent(g, 0)),
    ("network_transmit_packets_total", Kind::Counter, "Packets sent.", |g| sent(g, 1)),
    ("network_transmit_errors_total", Kind::Counter, "Packets not sent for an error.", |g| sent(g, 2)),
    ("network_transmit_dropped_total", Kind::Counter, "Packets dropped instead of sent.", |g| sent(g, 3)),
];

fn received(group: &Group, at: usize) -> Figure {
    Figure::Count(group.traffic.map(|traffic| traffic.received[at]))
}

fn sent(group: &Group, at: usize) -> Figure {
    Figure::Count(group.traffic.map(|traffic| traffic.sent[at]))
}

/// Writes the labels of groups that are new or have got names since.
pub fn label(groups: &mut Groups, book: &Book) {
    for group in groups.iter_mut().filter(|group| group.names_version < book.version) {
        group.labels = labels(group, book);
        group.names_version = book.version;
    }
}

/// Twelve digits tell containers apart, and are what people see elsewhere.
fn short(id: &str) -> &str {
    if id.len() == 64 { id.get(..12).unwrap_or(id) } else { id }
}

fn labels(group: &Group, book: &Book) -> Labels {
    let named = &group.named;
    let pod = named.pod.as_deref().and_then(|uid| book.pod(uid));
    match &named.kind {
        Whose::Container(id) => {
            let name = book.container(id);
            let text = |of: fn(&super::names::ContainerName) -> &Option<String>| {
                name.and_then(|name| of(name).as_deref())
            };
            Labels::new()
                .and("id", short(id))
                .and("container", text(|name| &name.container).unwrap_or(short(id)))
                .and_some("pod", text(|name| &name.pod).or_else(|| pod?.pod.as_deref()))
                .and_some("namespace", text(|name| &name.namespace).or_else(|| pod?.namespace.as_deref()))
                .and_some("image", text(|name| &name.image))
                .and_some("run_id", text(|name| &name.run_id).or_else(|| pod?.run_id.as_deref()))
        }
        Whose::Pod(uid) => Labels::new()
            .and("uid", uid)
            .and_some("pod", pod.and_then(|pod| pod.pod.as_deref()))
            .and_some("namespace", pod.and_then(|pod| pod.namespace.as_deref()))
            .and_some("run_id", pod.and_then(|pod| pod.run_id.as_deref())),
        Whose::Run(run) => Labels::new().and("run_id", run),
        // Users' managers have units of the same names.
        Whose::Unit(unit) => Labels::new().and("unit", unit).and("path", &group.path),
    }
}

pub fn groups(groups: &Groups, page: &mut Page) {
    for sort in Sort::ALL {
        let members: Vec<&Group> = groups.of(sort).collect();
        if members.is_empty() {
            continue;
        }
        let mut name = String::with_capacity(64);
        for (suffix, kind, help, figure) in ROWS {
            name.clear();
            for part in ["metier_", sort.word(), "_", suffix] {
                name.push_str(part);
            }
            let mut family = page.family(&name, kind, help);
            for group in &members {
                match figure(group) {
                    Figure::Seconds(value) => family.sample_if(&group.labels, value),
                    Figure::Bytes(value) => family.sample_if(&group.labels, value),
                    Figure::Count(value) => family.sample_if(&group.labels, value),
                    Figure::Number(value) => family.sample_if(&group.labels, value),
                }
            }
        }
        let name = format!("metier_{}_info", sort.word());
        let mut family = page.family(&name, Kind::Info, "What the group's path tells; always 1.");
        for group in
            members.iter().filter(|group| group.named.runtime.is_some() || group.named.quality.is_some())
        {
            let mut more = Labels::new();
            more = more.and_some("runtime", group.named.runtime).and_some("qos", group.named.quality);
            family.sample(&group.labels.with(&more), 1u64);
        }
    }
}

/// Writes the leading commands.
pub fn processes(processes: &Processes, page: &mut Page) {
    let commands: Vec<(Labels, super::processes::Command)> = processes
        .commands()
        .into_iter()
        .map(|command| {
            let pid = command.pid.map(|pid| pid.to_string());
            (Labels::new().and("command", &command.name).and_some("pid", pid.as_deref()), command)
        })
        .collect();
    fn all<V: Value>(
        page: &mut Page,
        commands: &[(Labels, super::processes::Command)],
        (name, kind, help): (&str, Kind, &str),
        value: fn(&super::processes::Command) -> Option<V>,
    ) {
        let mut family = page.family(name, kind, help);
        commands.iter().for_each(|(labels, command)| family.sample_if(labels, value(command)));
    }
    let user = "CPU time in programs, by command.";
    all(page, &commands, ("metier_process_cpu_user_seconds_total", Kind::Counter, user), |c| Some(c.user));
    let system = "CPU time in the kernel, by command.";
    all(page, &commands, ("metier_process_cpu_system_seconds_total", Kind::Counter, system), |c| {
        Some(c.system)
    });
    let resident = "Resident memory, by command; what processes share is counted with each.";
    all(page, &commands, ("metier_process_resident_bytes", Kind::Gauge, resident), |c| Some(c.resident));
    let read = "Bytes that devices read, by command; with what ended children read.";
    all(page, &commands, ("metier_process_io_read_bytes_total", Kind::Counter, read), |c| {
        c.io.map(|io| io.0)
    });
    let written = "Bytes that devices wrote, by command; with what ended children wrote.";
    all(page, &commands, ("metier_process_io_written_bytes_total", Kind::Counter, written), |c| {
        c.io.map(|io| io.1)
    });
    all(page, &commands, ("metier_process_instances", Kind::Gauge, "Processes, by command."), |c| {
        Some(c.processes)
    });
    all(page, &commands, ("metier_process_threads", Kind::Gauge, "Threads, by command."), |c| {
        Some(c.threads)
    });
    page.single("metier_processes", Kind::Gauge, "Processes of the node.", processes.total);
}

/// What the agent knows of itself.
#[derive(Debug, Clone, Default)]
pub struct Own {
    pub version: String,
    /// Start, in seconds of Unix time.
    pub started: f64,
    pub pages: u64,
    /// How long reading and writing of this page took so far.
    pub took: Seconds,
    /// Size of the page before.
    pub last_bytes: u64,
}

/// Writes what the agent itself costs, and what is not on the page.
pub fn own(own: &Own, groups: &Groups, names: &Names, left_out: &[(&str, u64)], page: &mut Page) {
    let used = process::read();
    page.family("metier_agent_build_info", Kind::Info, "Which program this is; always 1.")
        .sample(&[("version", own.version.as_str())], 1u64);
    let start = "When the agent started, Unix time.";
    page.single("metier_agent_start_time_seconds", Kind::Gauge, start, own.started);
    page.single("metier_agent_cpu_seconds_total", Kind::Counter, "CPU time of the agent.", used.cpu_seconds);
    let resident = "Resident memory of the agent.";
    page.single_if("metier_agent_resident_bytes", Kind::Gauge, resident, used.resident_bytes);
    page.single_if("metier_agent_open_files", Kind::Gauge, "Files that the agent holds.", used.open_files);
    page.single("metier_agent_scrapes_total", Kind::Counter, "Pages made.", own.pages);
    let took = "Time that reading everything for this page took.";
    page.single("metier_agent_scrape_duration_seconds", Kind::Gauge, took, own.took);
    page.single("metier_agent_page_bytes", Kind::Gauge, "Size of the page before this one.", own.last_bytes);
    let mut family = page.family("metier_agent_groups", Kind::Gauge, "Groups on this page, by kind.");
    for sort in Sort::ALL {
        family.sample(&[("kind", sort.word())], groups.of(sort).count());
    }
    let mut family = page.family(
        "metier_agent_left_out",
        Kind::Gauge,
        "What is not on this page because of a bound, by kind.",
    );
    for sort in Sort::ALL {
        let count = groups.left_out().get(sort.word()).copied().unwrap_or(0);
        family.sample(&[("kind", sort.word())], count);
    }
    family.sample(&[("kind", "folder")], groups.left_out().get("folder").copied().unwrap_or(0));
    for (kind, count) in left_out {
        family.sample(&[("kind", *kind)], *count);
    }
    let mut family = page.family(
        "metier_agent_name_lookups_total",
        Kind::Counter,
        "Times that a source was asked for names.",
    );
    for asked in names.asked() {
        family.sample(&[("source", asked.source)], asked.times.load(Ordering::Relaxed));
    }
    let mut family = page.family(
        "metier_agent_name_failures_total",
        Kind::Counter,
        "Times that a source of names gave no answer.",
    );
    for asked in names.asked() {
        family.sample(&[("source", asked.source)], asked.failures.load(Ordering::Relaxed));
    }
}
