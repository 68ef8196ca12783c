//! Recorded logs of real boards against figures computed independently of this crate.

use super::*;
use crate::boards::recorded::{MADE, shared};

fn read(text: &str) -> (RecordingSummary, Vec<(TegrastatsLine, LineRole)>) {
    let mut recording = TegrastatsRecording::new(DEFAULT_INTERVAL);
    let lines = text.lines().map(|line| recording.add_line(line.as_bytes())).collect();
    (recording.summarise(), lines)
}

fn close(got: f64, want: f64, within: f64) {
    assert!((got - want).abs() <= within, "{got} is not {want} ± {within}");
}

#[test]
fn the_xavier_log_gives_the_figures_that_were_computed_from_its_columns() {
    let Some(text) = shared("xavier_nx_jp5_burn.log") else { return };
    let (summary, lines) = read(&text);
    let energy = summary.energy.unwrap();
    close(energy.mean_watts.get(), 12.3290, 5e-5);
    assert_eq!(energy.peak_watts, Watts(13.830));
    close(energy.joules.get(), 868.35, 0.005);
    assert_eq!((energy.covered, energy.stretches, summary.clock), (Seconds(70.0), 1, RecordingClock::Stamps));
    assert_eq!((summary.lines, summary.samples, summary.dropped, summary.starts), (69, 69, 0, 1));
    assert_eq!(summary.power_rails, ["VDD_IN"]);
    let full = lines.iter().filter(|(line, _)| line.board.gpu_load() == Some(Ratio(0.99))).count();
    assert_eq!(full, 58);
    assert!(lines.iter().all(|(line, _)| line.unknown.is_empty() && line.board.cores.len() == 6));
    assert!(lines.iter().all(|(line, _)| line.board.cores[4].off && line.board.cores[5].off));
    assert!(
        lines
            .iter()
            .any(|(line, _)| { line.board.ram.unwrap().largest_free.unwrap().size_bytes < Bytes(1 << 20) })
    );
    assert_eq!(lines[0].1, LineRole::Start);
}

#[test]
fn the_error_of_an_energy_is_stated_and_holds_for_half_of_the_samples() {
    let Some(text) = shared("xavier_nx_jp5_burn.log") else { return };
    let all = read(&text).0.energy.unwrap();
    assert!(all.aliasing_joules.get() > 0.0 && all.aliasing_joules.get() < 0.05 * all.joules.get());
    assert!(all.bound_joules.get() >= all.aliasing_joules.get() / 2.0);
    close(all.clock_joules.get(), 12.329, 0.001);
    for first in [0, 1] {
        let half: Vec<&str> = text.lines().skip(first).step_by(2).collect();
        let half = read(&half.join("\n")).0.energy.unwrap();
        let allowed = all.error().get() + half.error().get() + 2.0 * all.peak_watts.get();
        close(half.joules.get(), all.joules.get(), allowed);
    }
}

#[test]
fn a_log_without_stamps_goes_by_the_interval_and_says_so() {
    let Some(text) = shared("nano_jp4_inference.log") else { return };
    let (summary, lines) = read(&text);
    let energy = summary.energy.unwrap();
    assert_eq!((summary.lines, summary.samples, summary.clock), (76, 76, RecordingClock::Interval));
    assert_eq!(energy.covered, Seconds(75.0));
    assert_eq!(summary.power_rails, ["POM_5V_IN"]);
    // `tegrastats`' own running mean over all lines so far, cut to whole milliwatts.
    close(energy.mean_watts.get(), 4.208, 0.001);
    close(energy.clock_joules.get(), 0.03 * energy.joules.get(), 1e-9);
    assert!(lines.iter().all(|(line, _)| line.unknown.is_empty() && line.board.iram.is_some()));
    let mut slow = TegrastatsRecording::new(Duration::from_secs(2));
    text.lines().for_each(|line| drop(slow.add_line(line.as_bytes())));
    close(slow.summarise().energy.unwrap().joules.get(), 2.0 * energy.joules.get(), 1e-6);
}

#[test]
fn an_agx_orin_has_no_rail_for_all_and_its_three_are_added() {
    let Some(text) = shared("orin_agx64_jp6.log") else { return };
    let (summary, lines) = read(&text);
    assert_eq!(summary.power_rails, ["VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"]);
    assert_eq!(lines[0].0.board.power(), Some(Watts(6.912)));
    assert_eq!(lines[1].0.board.power(), Some(Watts(6.811)));
    assert_eq!(summary.energy.unwrap().covered, Seconds(10.0));
    assert_eq!((summary.starts, summary.dropped), (1, 0));
    assert!(
        lines
            .iter()
            .all(|(line, _)| line.unknown.is_empty() && line.board.gpus[0].frequencies_hertz.len() == 2)
    );
}

#[test]
fn restarts_inside_of_a_log_are_found_and_their_empty_first_lines_dropped() {
    let roles = |lines: &[(TegrastatsLine, LineRole)]| -> Vec<(usize, LineRole)> {
        let odd = lines.iter().enumerate().filter(|(_, (_, role))| *role != LineRole::Sample);
        odd.map(|(number, (_, role))| (number + 1, *role)).collect()
    };
    let Some(text) = shared("tx2_nonroot_restart.log") else { return };
    let (summary, lines) = read(&text);
    assert_eq!(roles(&lines), [(1, LineRole::Dropped), (28, LineRole::Dropped)]);
    assert_eq!((summary.lines, summary.samples, summary.dropped, summary.starts), (60, 58, 2, 2));
    assert_eq!(summary.energy.unwrap().stretches, 2);
    assert!(lines[5].0.board.gpus.is_empty() && lines[5].0.board.emc.is_none(), "not shown without root");
    let Some(text) = shared("tx2_root_restart.log") else { return };
    let (summary, lines) = read(&text);
    assert_eq!(roles(&lines), [(11, LineRole::Dropped)]);
    assert_eq!((summary.lines, summary.samples, summary.dropped, summary.starts), (60, 59, 1, 1));
    assert!(lines[9].0.board.gpus.is_empty() && !lines[11].0.board.gpus.is_empty());
    assert!(summary.gpu_load_ratio.is_some());
}

#[test]
fn lines_of_one_second_are_spread_over_it() {
    let line = |stamp: &str, power: u32| format!("{stamp} RAM 1/2MB CPU [5%@1] VDD_IN {power}mW/1mW");
    let mut text = Vec::new();
    for second in 0..5 {
        for _ in 0..4 {
            text.push(line(&format!("10-01-2025 20:05:0{second}"), 2000));
        }
    }
    let energy = read(&text.join("\n")).0.energy.unwrap();
    assert_eq!((energy.samples, energy.covered, energy.joules), (20, Seconds(4.75), Joules(9.5)));
}

#[test]
fn a_long_gap_and_a_clock_that_was_set_back_are_not_integrated() {
    let line = |stamp: &str| format!("10-01-2025 {stamp} RAM 1/2MB CPU [5%@1] VDD_IN 1000mW/900mW");
    let text: Vec<String> =
        ["20:00:00", "20:00:01", "21:00:00", "21:00:01", "20:30:00", "20:30:01"].map(line).into();
    let energy = read(&text.join("\n")).0.energy.unwrap();
    assert_eq!((energy.joules, energy.covered, energy.stretches), (Joules(3.0), Seconds(3.0), 3));
}

#[test]
fn what_is_no_line_of_the_program_is_counted_and_bends_nothing() {
    let Some(text) = shared("xavier_nx_jp5_burn.log") else { return };
    let clean = read(&text).0.energy;
    let dirty: String =
        text.lines().map(|line| format!("{line}\n\nsh: tegrastats: not found \u{fffd}\n")).collect();
    let (summary, _) = read(&dirty);
    assert_eq!((summary.energy, summary.foreign, summary.samples), (clean, 138, 69));
    let (nothing, _) = read("hello\n");
    assert_eq!((nothing.energy, nothing.samples, nothing.cpu_load_ratio), (None, 0, None));
}

#[test]
fn received_lines_go_by_the_clock_of_the_receiver() {
    let read = |between: f64| {
        let mut recording = TegrastatsRecording::new(DEFAULT_INTERVAL);
        for number in 0..11 {
            let line = format!("10-01-2025 20:05:{:02} CPU [1%@1] VDD_IN 1000/999", 40 + number);
            recording.add_received(line.as_bytes(), Seconds(f64::from(number) * between));
        }
        recording.summarise()
    };
    let live = read(1.03);
    close(live.energy.unwrap().joules.get(), 10.3, 1e-9);
    assert_eq!((live.clock, live.energy.unwrap().clock_joules), (RecordingClock::Receipt, Joules(0.0)));
    let out_of_a_file = read(1e-5);
    assert_eq!(
        (out_of_a_file.clock, out_of_a_file.energy.unwrap().joules),
        (RecordingClock::Stamps, Joules(10.0))
    );
}

#[test]
fn lines_without_stamps_that_come_at_once_go_by_the_interval() {
    let mut recording = TegrastatsRecording::new(DEFAULT_INTERVAL);
    for (number, line) in MADE[1].lines().enumerate() {
        recording.add_received(line.as_bytes(), Seconds(number as f64 * 1e-5));
    }
    let summary = recording.summarise();
    assert_eq!((summary.clock, summary.energy.unwrap().covered), (RecordingClock::Interval, Seconds(7.0)));
}

#[test]
fn lines_with_and_without_stamps_in_one_log_are_two_clocks() {
    let stamped = |second: u32| format!("10-01-2025 20:00:0{second} CPU [5%@1] VDD_IN 1000mW/900mW");
    let plain = "CPU [5%@1] VDD_IN 1000mW/900mW".to_string();
    let mut text: Vec<String> = (0..4).map(stamped).collect();
    text.extend(std::iter::repeat_n(plain, 4));
    text.extend((5..9).map(stamped));
    let energy = read(&text.join("\n")).0.energy.unwrap();
    assert_eq!((energy.joules, energy.covered, energy.stretches), (Joules(9.0), Seconds(9.0), 3));
}
