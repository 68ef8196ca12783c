//! What applications say of themselves: how long a stage took, how many items, any number.
//!
//! Each way to say it is one file, and [`SOURCES`] is the list: the Waggle live [`socket`], [`pywaggle`]'s log folder, plain
//! [`lines`], the application's own metrics page ([`scrape`]). What arrives is cut into messages ([`frame`]) by a
//! thread that does nothing else ([`pump`]), waits in a bounded [`queue`], is understood, and ends in the [`intake`]: counts, sums
//! and a [`histogram`] for each stage of each speaker. [`listening`] is all of it for one run, and [`ears`] makes an observer
//! of it; what was heard in a pod of another machine is [`relayed`]; live watching uses pump and intake with a speaker for each container or process.
//!
//! - An application never waits for us: what comes too fast is dropped as whole messages, counted and shown.
//! - Who speaks is told by the kernel's credentials ([`member`]), never by order of arrival.
//! - No bytes stop anything: what is not understood is counted, with a few examples and what would be right.
//! - Memory is bounded, whatever is sent: messages in the queue, stages, speakers, connections, buckets.

pub mod descriptor;
pub mod ears;
pub mod follow;
pub mod frame;
pub mod heard;
pub mod histogram;
pub mod intake;
pub mod lines;
pub mod listening;
pub mod member;
pub mod message;
pub mod pump;
pub mod pywaggle;
pub mod queue;
pub mod relayed;
pub mod rows;
pub mod scrape;
pub mod socket;
pub mod tally;
#[cfg(test)]
mod tests;

pub use ears::Ears;
pub use heard::Heard;
pub use histogram::Histogram;
pub use intake::{Intake, Limits, Speaker};
pub use listening::Listening;
pub use member::{Members, Standing};
pub use message::{Message, Number};
pub use tally::Tally;

use metier_types::StageSource;

/// Every way to listen, with its word on the command line.
pub const SOURCES: [(&str, StageSource); 4] = [
    ("socket", StageSource::Socket),
    ("pywaggle", StageSource::Pywaggle),
    ("lines", StageSource::Lines),
    ("scrape", StageSource::Scrape),
];
