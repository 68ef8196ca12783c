//! Everything that the agent reads, and the page that it makes of it. It blocks; one page is made at a time.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use metier_device::boards;
use metier_device::local_board::Board;
use metier_prom::{Format, Kind, Page};
use metier_types::{Seconds, Timestamp};

use super::apps::Apps;
use super::config::AgentConfig;
use super::device::Sheet;
use super::groups::Groups;
use super::load::Load;
use super::names::Names;
use super::page::{self, Own};
use super::processes::Processes;
use super::usage;
use crate::error::Error;

/// Everything that the agent reads.
pub struct Collector {
    groups: Groups,
    processes: Processes,
    names: Names,
    apps: Option<Apps>,
    sheet: Sheet,
    load: Load,
    board: Option<Board>,
    own: Own,
    buffer: Vec<u8>,
    last: Option<Instant>,
}

impl Collector {
    /// Opens what the host has.
    pub fn new(config: &mut AgentConfig) -> Result<Self, Error> {
        let roots = &config.roots;
        let device = metier_device::identity::this(roots, config.data.as_deref())
            .map_err(|error| Error::Device { reason: error.to_string() })?;
        let groups = Groups::new(roots, config.bounds.clone(), usage::files_to_hold(&roots.proc));
        if !groups.is_any_mounted() {
            tracing::warn!("no control group file system is mounted: containers and pods cannot be shown");
        }
        let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        let apps = Apps::listen(&config.sockets, &roots.proc, &config.bounds);
        for path in apps.iter().flat_map(Apps::paths) {
            tracing::info!(path = %path.display(), "applications are listened to");
        }
        Ok(Self {
            groups,
            apps,
            processes: Processes::new(roots.proc.clone(), config.bounds.commands, config.by_pid),
            names: Names::start(std::mem::take(&mut config.sources)),
            load: Load::new(roots, config.node.as_deref().unwrap_or(&device.name)),
            sheet: Sheet::new(roots, device, config.node.clone(), config.location.clone()),
            // Only a Jetson has series of its own; what others show is in theirs.
            board: Some(Board::open(roots)).filter(|board| board.kind == boards::Kind::Jetson),
            own: Own { version: config.version.clone(), started, ..Own::default() },
            buffer: Vec::new(),
            last: None,
        })
    }

    /// Reads everything and writes the page.
    pub fn page(&mut self, format: Format) -> String {
        let begun = Instant::now();
        self.groups.read();
        self.names.want(&self.groups);
        page::label(&mut self.groups, &self.names.book());
        self.processes.read(&mut self.buffer);
        self.sheet.read();

        // About as large as the one before, which grows only with what runs.
        let mut text = String::new();
        text.reserve(self.own.last_bytes as usize + (8 << 10));
        let mut out = Page::reusing(format, text);
        page::groups(&self.groups, &mut out);
        page::processes(&self.processes, &mut out);
        if let Some(apps) = &mut self.apps {
            apps.write(&self.names.book(), &mut out);
        }
        self.sheet.write(&mut out);
        self.load.write(&mut out);
        if let Some(board) = &mut self.board {
            jetson(&board.snapshot(), Timestamp::now(), &mut out);
        }
        self.own.pages += 1;
        self.own.took = Seconds(begun.elapsed().as_secs_f64());
        let left_out = [
            ("process", self.processes.left_out),
            ("command", self.processes.not_shown),
            ("sample", out.left_out()),
        ];
        page::own(&self.own, &self.groups, &self.names, &left_out, &mut out);
        let text = out.finish();
        self.own.last_bytes = text.len() as u64;
        self.last = Some(begun);
        text
    }

    /// Closes the files of groups if nobody asked for a page of late: they would keep what is gone from going.
    pub fn rest_if_idle(&mut self, idle: std::time::Duration) {
        if self.last.is_some_and(|last| last.elapsed() > idle) {
            self.groups.rest();
            self.buffer = Vec::new();
            self.last = None;
        }
    }
}

/// Writes a board under the names of jetson-exporter.
fn jetson(board: &boards::Snapshot, updated: Timestamp, page: &mut Page) {
    let series = boards::exporter::series(board, updated);
    for family in series.chunk_by(|a, b| a.name == b.name) {
        let mut out = page.family(family[0].name, Kind::Gauge, family[0].help);
        for one in family {
            match &one.label {
                Some((name, value)) => out.sample(&[(*name, value.as_str())], one.value),
                None => out.sample(&(), one.value),
            }
        }
    }
}
