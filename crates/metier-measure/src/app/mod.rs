//! Messages of applications about themselves: stage durations, counts of items, any number.
//!
//! [`SOURCES`] lists the kinds of sources, one file each: the Waggle live [`socket`],
//! [`pywaggle`]'s log folder, plain lines ([`line_protocol`]), the application's own metrics page
//! ([`scrape`]). A dedicated thread ([`message_reader`]) splits the input into messages
//! ([`message_framer`]). They wait in a bounded [`message_queue`], are parsed, and are aggregated
//! by the [`intake`]: counts, sums and a [`histogram`] for each stage of each sender. [`listener`]
//! combines these for one run, and [`observer`] makes it a run observer. [`remote_app`] handles
//! applications on another machine. Live monitoring uses reader and intake with a sender for each
//! container or process.
//!
//! - An application never waits for metier: overload drops whole messages, which are counted and
//!   shown.
//! - Senders are authorised by the kernel's credentials ([`membership`]), never by order of
//!   arrival.
//! - No input stops the listener: malformed input is counted, with a few examples and the expected
//!   form.
//! - Memory is bounded for any input: queued messages, stages, senders, connections, buckets.

pub mod descriptor;
pub mod file_follower;
pub mod histogram;
pub mod intake;
pub mod line_protocol;
pub mod listener;
pub mod membership;
pub mod message;
pub mod message_framer;
pub mod message_queue;
pub mod message_reader;
pub mod observer;
pub mod pywaggle;
pub mod record;
pub mod remote_app;
pub mod scrape;
pub mod socket;
pub mod stage_cpu;
mod stage_stats;
pub mod stage_timeline;
#[cfg(test)]
mod tests;

pub use histogram::LogHistogram;
pub use intake::{IntakeLimits, MessageIntake, SenderStats};
pub use listener::RunMessageListener;
pub use membership::{MemberProcesses, RunMembership};
pub use message::{AppMessage, MessageNumber};
pub use observer::AppObserver;
pub use record::AppRecord;
pub use stage_stats::StageStats;

use metier_types::StageSource;

/// All kinds of sources, with their names on the command line.
pub const SOURCES: [(&str, StageSource); 4] = [
    ("socket", StageSource::Socket),
    ("pywaggle", StageSource::Pywaggle),
    ("lines", StageSource::Lines),
    ("scrape", StageSource::Scrape),
];
