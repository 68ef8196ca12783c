//! What applications say of themselves: how long a stage took, how many items, any number.
//!
//! Each way to say it is one file, and [`SOURCES`] is the list: the Waggle live [`socket`], [`pywaggle`]'s log folder, plain
//! [`push_lines`], the application's own metrics page ([`scrape`]). What arrives is cut into messages ([`frame_at`]) by a
//! thread that does nothing else ([`message_reader`]), waits in a bounded [`message_queue`], is understood, and ends in the [`intake`]: counts, sums
//! and a [`histogram`] for each stage of each speaker. [`listener`] is all of it for one run, and [`observer`] makes an observer
//! of it; what was heard in a pod of another machine is [`remote_app`]; live watching uses pump and intake with a speaker for each container or process.
//!
//! - An application never waits for us: what comes too fast is dropped as whole messages, counted and shown.
//! - Who speaks is told by the kernel's credentials ([`membership`]), never by order of arrival.
//! - No bytes stop anything: what is not understood is counted, with a few examples and what would be right.
//! - Memory is bounded, whatever is sent: messages in the queue, stages, speakers, connections, buckets.

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
pub mod stage_stats;
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

/// Every way to listen, with its word on the command line.
pub const SOURCES: [(&str, StageSource); 4] = [
    ("socket", StageSource::Socket),
    ("pywaggle", StageSource::Pywaggle),
    ("lines", StageSource::Lines),
    ("scrape", StageSource::Scrape),
];
