//! `metier device bench`: measures the passport of this device, stores and prints it.

use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use metier_device::identity;
use metier_device::passport::{self, PassportBenchPlan};
use metier_linux::KernelRoots;

use super::super::CommandContext;
use super::passport_sheet;
use crate::config::data_folder;
use crate::time::parse_duration_flag;

/// Steps of the progress bar.
const PROGRESS_STEPS: u64 = 1000;

/// Measure what this device can do, and store it as its passport
#[derive(Debug, Args)]
#[command(
    before_help = "Examples:\n  metier device bench                 about half a minute\n  metier device bench --seconds 2m    more precise on a busy host\n  metier device bench -o json         the record (metier.passport/1)",
    after_help = "Measured with one thread up to all: multiply-adds by precision, memory by working set; then storage, starting processes, and whether speed lasts. Run it while the device has nothing else to do."
)]
pub struct DeviceBenchArgs {
    /// Time to spend, about: 1s to 1h
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration_flag)]
    seconds: Duration,
}

impl DeviceBenchArgs {
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<()> {
        let roots = KernelRoots::default();
        let folder = data_folder();
        let device = identity::describe_device(&roots, folder.as_deref())?;
        // An unwritable store fails before the measurement, not after it.
        let store = context.writable_store()?;
        let target =
            if context.console.quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(PROGRESS_STEPS), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {msg}, {eta} left") {
            bar.set_style(style);
        }
        let progress = |part: &str, done: f64| {
            bar.set_position((done * PROGRESS_STEPS as f64) as u64);
            bar.set_message(part.to_string());
            if bar.is_hidden() && done < 1.0 {
                context.console.note(format!("{:>3.0} %  {part}", done * 100.0));
            }
        };
        let plan = PassportBenchPlan {
            roots: &roots,
            seconds: self.seconds.as_secs_f64(),
            folder,
            progress: &progress,
        };
        let passport = passport::measure_passport(device.clone(), &plan);
        bar.finish_and_clear();
        let passport = passport?;
        store.put_device(&device)?;
        store.put_passport(&passport)?;
        passport.notes.iter().for_each(|note| context.console.warn(note));
        passport_sheet::print_passport(context, &passport)
    }
}
