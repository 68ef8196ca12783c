//! All sources of the agent, and the page made from them. Calls block; one page is made at a time.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use metier_device::boards;
use metier_device::local_board::LocalBoard;
use metier_prom::{ExpositionFormat, MetricKind, MetricsPage};
use metier_types::{Seconds, UtcTimestamp};

use super::app_listener::AppListener;
use super::cgroup_usage;
use super::command_usage::ProcessScanner;
use super::config::AgentConfig;
use super::device_metrics::DeviceMetrics;
use super::group_tracker::GroupTracker;
use super::host_load::HostLoadMetrics;
use super::metrics_page::{self, AgentStats};
use super::name_resolver::NameResolver;
use crate::error::Error;

/// All sources of the agent.
pub struct AgentCollector {
    groups: GroupTracker,
    processes: ProcessScanner,
    names: NameResolver,
    apps: Option<AppListener>,
    sheet: DeviceMetrics,
    load: HostLoadMetrics,
    board: Option<LocalBoard>,
    own: AgentStats,
    buffer: Vec<u8>,
    last: Option<Instant>,
}

impl AgentCollector {
    /// Opens the sources that the host has.
    pub fn new(config: &mut AgentConfig) -> Result<Self, Error> {
        let roots = &config.roots;
        let device = metier_device::identity::identify_device(roots, config.data.as_deref())
            .map_err(|error| Error::Device { reason: error.to_string() })?;
        let mut groups =
            GroupTracker::new(roots, config.bounds.clone(), cgroup_usage::open_file_budget(&roots.proc));
        if !groups.is_any_mounted() {
            tracing::warn!("no control group file system is mounted: containers and pods cannot be shown");
        }
        let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        let apps = AppListener::listen(&config.sockets, &roots.proc, &config.bounds);
        for path in apps.iter().flat_map(AppListener::paths) {
            tracing::info!(path = %path.display(), "applications are listened to");
        }
        let mut names = NameResolver::start(std::mem::take(&mut config.sources));
        // So that the groups of now have their names on the first page.
        groups.read_usage();
        names.request_names(&groups, &[]);
        Ok(Self {
            groups,
            apps,
            processes: ProcessScanner::new(roots.proc.clone(), config.bounds.commands, config.by_pid),
            names,
            load: HostLoadMetrics::new(roots, config.node.as_deref().unwrap_or(&device.name)),
            sheet: DeviceMetrics::new(roots, device, config.node.clone(), config.location.clone()),
            // Only a Jetson has board series; other boards are covered by the device series.
            board: Some(LocalBoard::open(roots)).filter(|board| board.kind == boards::BoardKind::Jetson),
            own: AgentStats { version: config.version.clone(), started, ..AgentStats::default() },
            buffer: Vec::new(),
            last: None,
        })
    }

    /// Reads everything and writes the page.
    pub fn render_page(&mut self, format: ExpositionFormat) -> String {
        let begun = Instant::now();
        self.groups.read_usage();
        let senders = self.apps.as_ref().map(AppListener::unnamed_senders).unwrap_or_default();
        self.names.request_names(&self.groups, &senders);
        metrics_page::update_group_labels(&mut self.groups, &self.names.lock_names());
        self.processes.scan(&mut self.buffer);
        self.sheet.read();

        // The page is about as large as the last one.
        let mut text = String::new();
        text.reserve(self.own.last_bytes as usize + (8 << 10));
        let mut out = MetricsPage::with_buffer(format, text);
        metrics_page::write_groups(&self.groups, &mut out);
        metrics_page::write_processes(&self.processes, &mut out);
        if let Some(apps) = &mut self.apps {
            apps.write_metrics(&self.names.lock_names(), &mut out);
        }
        self.sheet.write(&mut out);
        self.load.write(&mut out);
        if let Some(board) = &mut self.board {
            write_jetson_metrics(&board.read_snapshot(), UtcTimestamp::now(), &mut out);
        }
        self.own.pages += 1;
        self.own.took = Seconds(begun.elapsed().as_secs_f64());
        let left_out = [
            ("process", self.processes.left_out),
            ("command", self.processes.not_shown),
            ("sample", out.dropped_samples()),
        ];
        metrics_page::write_agent_stats(&self.own, &self.groups, &self.names, &left_out, &mut out);
        let text = out.finish();
        self.own.last_bytes = text.len() as u64;
        self.last = Some(begun);
        text
    }

    /// Closes the files of groups if no page was requested lately: open files keep removed groups
    /// alive.
    pub fn close_files_if_idle(&mut self, idle: std::time::Duration) {
        if self.last.is_some_and(|last| last.elapsed() > idle) {
            self.groups.close_files();
            self.buffer = Vec::new();
            self.last = None;
        }
    }
}

/// Writes a board under the metric names of jetson-exporter.
fn write_jetson_metrics(board: &boards::BoardSnapshot, updated: UtcTimestamp, page: &mut MetricsPage) {
    let series = boards::jetson_exporter::board_series(board, updated);
    for family in series.chunk_by(|a, b| a.name == b.name) {
        let mut out = page.begin_family(family[0].name, MetricKind::Gauge, family[0].help);
        for sample in family {
            match &sample.label {
                Some((name, value)) => out.add_sample(&[(*name, value.as_str())], sample.value),
                None => out.add_sample(&(), sample.value),
            }
        }
    }
}
