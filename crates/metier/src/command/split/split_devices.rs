//! The devices to cut a graph for: their flags, and the search for the best cut.

use std::path::Path;

use clap::{Args, ValueEnum};
use metier_onnx::GraphAnalysis;
use metier_onnx::split::OperatorChain;
use metier_onnx::split::solver::{MAX_DEVICES, SplitObjective};
use metier_predict::latency::{InferenceConditions, LatencyPredictor};
use metier_predict::splitting::{SplitAnswer, SplitQuestion, SplittingError};
use metier_session::runfile::quantity;
use metier_types::Seconds;

use crate::command::CommandContext;
use crate::command::predict::{find_passport, thread_count};
use crate::console::print_error;
use crate::exit::{CliExitCode, usage_error};

/// Devices, and the conditions of inference on them.
#[derive(Debug, Args)]
pub struct SplitDeviceArgs {
    /// Find the best cut for these devices, by name or id; `here` is this one
    #[arg(long, value_name = "DEVICE,DEVICE…", value_delimiter = ',')]
    devices: Vec<String>,
    /// Goal: latency of one inference, or throughput of a full pipeline
    #[arg(long, value_name = "GOAL", default_value = "latency")]
    goal: SplitGoal,
    /// Fixed time of each transfer, as 2ms
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    delay: String,
    /// Device of the input
    #[arg(long, value_name = "DEVICE")]
    input_at: Option<String>,
    /// Device of the result
    #[arg(long, value_name = "DEVICE")]
    output_at: Option<String>,
    /// Runtime of the parts: rten or onnxruntime
    #[arg(long, value_name = "RUNTIME", default_value = "rten")]
    runtime: String,
    /// Threads on each device [default: all of its processors]
    #[arg(long, value_name = "COUNT")]
    threads: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SplitGoal {
    Latency,
    Throughput,
}

/// Bandwidths between devices, in bytes per second.
#[derive(Debug, Default)]
pub struct DeviceLinks {
    /// Between all pairs that are not named.
    pub all: Option<f64>,
    /// Between two devices by label, in both directions.
    pub pairs: Vec<(String, String, f64)>,
}

/// Parses `100` and `A:B=100`.
pub fn parse_links(given: &[String]) -> anyhow::Result<DeviceLinks> {
    let mut links = DeviceLinks::default();
    for text in given {
        let wrong = || {
            usage_error(format!(
                "--bandwidth is {text:?}; want megabits a second above 0, as 100 or DEVICE:DEVICE=100"
            ))
        };
        let (pair, speed) = match text.rsplit_once('=') {
            Some((pair, speed)) => (Some(pair), speed),
            None => (None, text.as_str()),
        };
        let speed = speed.trim().parse::<f64>().ok().filter(|speed| speed.is_finite() && *speed > 0.0);
        let speed = speed.ok_or_else(wrong)? * 1e6 / 8.0;
        match pair.map(|pair| pair.split_once(':').ok_or_else(wrong)).transpose()? {
            None if links.all.is_some() => {
                return Err(usage_error(format!(
                    "--bandwidth {text:?}: one for all devices was given before"
                )));
            }
            None => links.all = Some(speed),
            Some((a, b)) => links.pairs.push((a.trim().to_string(), b.trim().to_string(), speed)),
        }
    }
    Ok(links)
}

impl SplitDeviceArgs {
    /// Whether there are any.
    pub fn is_given(&self) -> bool {
        !self.devices.is_empty()
    }

    /// Rejects device flags without devices.
    pub fn reject_device_flags(&self) -> anyhow::Result<()> {
        let flags = [("--input-at", self.input_at.is_some()), ("--output-at", self.output_at.is_some())];
        match flags.iter().find(|(_, is_given)| *is_given) {
            Some((flag, _)) => Err(usage_error(format!("{flag} names a device; want --devices too"))),
            None => Ok(()),
        }
    }

    /// Finds the cut and devices with the least time. Returns an exit code where nothing fits,
    /// after printing the reason.
    pub fn plan_split(
        &self,
        context: &CommandContext,
        file: &Path,
        chain: &OperatorChain,
        graph: &GraphAnalysis,
        links: &DeviceLinks,
        cuts: Option<&[usize]>,
    ) -> anyhow::Result<Result<SplitAnswer, CliExitCode>> {
        if self.devices.len() > MAX_DEVICES {
            return Err(usage_error(format!(
                "--devices names {}; want 1 to {MAX_DEVICES}",
                self.devices.len()
            )));
        }
        let threads = thread_count(self.threads)?;
        let conditions =
            InferenceConditions { runtime: self.runtime.clone(), threads, ..InferenceConditions::default() };
        conditions.check().map_err(|error| usage_error(error.to_string()))?;
        let delay = quantity::duration(&self.delay).ok_or_else(|| {
            usage_error(format!("--delay is {:?}; want {}", self.delay, quantity::DURATION))
        })?;
        let labels = device_labels(&self.devices)?;
        let store = context.writable_store()?;
        let passports = self
            .devices
            .iter()
            .map(|name| find_passport(&store, "--devices", name))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let bandwidth = bandwidth_matrix(&labels, links)?;
        let at = |flag: &str, name: &Option<String>| -> anyhow::Result<Option<usize>> {
            name.as_ref().map(|name| device_index(&labels, flag, name)).transpose()
        };
        let goal = match self.goal {
            SplitGoal::Latency => SplitObjective::Latency,
            SplitGoal::Throughput => SplitObjective::Throughput,
        };
        let question = SplitQuestion {
            chain,
            graph,
            devices: &passports,
            conditions: &conditions,
            bandwidth: &bandwidth,
            delay: Seconds(delay.as_secs_f64()),
            input_at: at("--input-at", &self.input_at)?,
            output_at: at("--output-at", &self.output_at)?,
            goal,
            cuts,
        };
        let plan = match question.answer(&LatencyPredictor::open(&store)?) {
            Ok(plan) => plan,
            Err(error @ SplittingError::Memory { .. }) => {
                print_error(&format!("{}: {error}", file.display()));
                return Ok(Err(CliExitCode::INFEASIBLE));
            }
            Err(error) => anyhow::bail!("{}: {error}", file.display()),
        };
        Ok(Ok(SplitAnswer { plan, labels, passports, conditions, goal }))
    }
}

/// Labels of devices: the second device of a name has the suffix #2.
fn device_labels(names: &[String]) -> anyhow::Result<Vec<String>> {
    let mut labels: Vec<String> = Vec::new();
    for (at, name) in names.iter().enumerate() {
        if name.trim().is_empty() {
            return Err(usage_error("--devices has an empty name; want names by commas"));
        }
        let before = names[..at].iter().filter(|other| *other == name).count();
        labels.push(if before == 0 { name.clone() } else { format!("{name}#{}", before + 1) });
    }
    Ok(labels)
}

fn device_index(labels: &[String], flag: &str, name: &str) -> anyhow::Result<usize> {
    labels
        .iter()
        .position(|label| label == name)
        .ok_or_else(|| usage_error(format!("{flag} is {name:?}; want one of {}", labels.join(", "))))
}

/// Bandwidths between devices, in bytes per second.
fn bandwidth_matrix(labels: &[String], links: &DeviceLinks) -> anyhow::Result<Vec<Vec<f64>>> {
    let mut speeds = vec![vec![links.all; labels.len()]; labels.len()];
    for (a, b, speed) in &links.pairs {
        let (a, b) = (device_index(labels, "--bandwidth", a)?, device_index(labels, "--bandwidth", b)?);
        if a == b {
            return Err(usage_error(format!("--bandwidth {0}:{0}: want two devices", labels[a])));
        }
        (speeds[a][b], speeds[b][a]) = (Some(*speed), Some(*speed));
    }
    let mut all = Vec::with_capacity(labels.len());
    for (from, row) in speeds.into_iter().enumerate() {
        let one = |(to, speed): (usize, Option<f64>)| match speed {
            Some(speed) => Ok(speed),
            None if from == to => Ok(f64::INFINITY),
            None => Err(usage_error(format!(
                "the bandwidth between {} and {} is not given; want --bandwidth MBIT/S or --bandwidth {}:{}=MBIT/S",
                labels[from], labels[to], labels[from], labels[to]
            ))),
        };
        all.push(row.into_iter().enumerate().map(one).collect::<anyhow::Result<Vec<_>>>()?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidth_is_read_for_all_and_for_pairs() {
        let texts = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        let labels = device_labels(&texts(&["pi", "nano", "pi"])).unwrap();
        assert_eq!(labels, ["pi", "nano", "pi#2"]);
        let links = parse_links(&texts(&["100", "pi:pi#2=8"])).unwrap();
        let speeds = bandwidth_matrix(&labels, &links).unwrap();
        assert_eq!((speeds[0][1], speeds[0][2], speeds[2][0]), (12.5e6, 1e6, 1e6));
        for wrong in ["0", "-1", "fast", "a=5", "NaN", "a:b="] {
            assert!(
                super::parse_links(&texts(&[wrong])).unwrap_err().to_string().contains("--bandwidth"),
                "{wrong}"
            );
        }
        let few = super::parse_links(&texts(&["pi:nano=5"])).unwrap();
        let error = bandwidth_matrix(&labels, &few).unwrap_err().to_string();
        assert!(error.contains("pi and pi#2"), "{error}");
    }
}
