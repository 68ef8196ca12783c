//! The conditions of a run: command, device, image, pod, dataset, limits, co-runners, files.

use metier_types::CoRunnerKind;

use crate::ReportedRun;
use crate::blocks::{CellTone, ReportBlock, ReportCell, ReportTable};
use crate::value_format::{describe_end, format_moment, shell_command_line, shorten};

/// Maximum number of listed co-runners and files.
const MAX_LISTED: usize = 50;

pub fn circumstance_blocks(shown: &ReportedRun) -> Vec<ReportBlock> {
    let run = &shown.run;
    let context = &run.context;
    let mut facts: Vec<(String, ReportCell)> = Vec::new();
    let mut add = |label: &str, value: Option<String>, tone: CellTone| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            facts.push((label.to_string(), ReportCell::with_tone(shorten(&value, 4000), tone)));
        }
    };
    let plain = CellTone::Plain;
    add("run", Some(run.id.to_string()), CellTone::Code);
    add("command", Some(shell_command_line(&context.command)), CellTone::Code);
    add("device", Some(run.device.name.clone()), plain);
    add("started", Some(format_moment(run.started)), plain);
    add("end", Some(describe_end(run.state, run.exit.as_ref())), plain);
    if let Some(image) = &context.image {
        add("image", Some(image.reference.clone()), CellTone::Code);
        add("… content", image.digest.map(|digest| digest.to_string()), CellTone::Code);
        add("… run by", Some(image.engine.clone()), plain);
    }
    if let Some(pod) = &context.pod {
        add("pod", Some(format!("{}/{}", pod.namespace, pod.name)), CellTone::Code);
        add("… on node", pod.node.clone(), plain);
    }
    if let Some(dataset) = &context.dataset {
        add("dataset", Some(dataset.source.clone()), CellTone::Code);
        let cached = if dataset.was_cached { "already here" } else { "fetched" };
        let took = dataset.fetch_seconds.map(|took| format!(" in {took}")).unwrap_or_default();
        let cache = format!("{:?}", dataset.page_cache).to_lowercase();
        add("… content", Some(format!("{}, {}", dataset.digest, dataset.size_bytes)), CellTone::Code);
        add("… state", Some(format!("{cached}{took}; page cache {cache}")), plain);
    }
    add("executable", context.executable_digest.map(|digest| digest.to_string()), CellTone::Code);
    add("input", context.input.clone(), CellTone::Code);
    add("kernel", context.kernel.clone(), plain);
    add("power mode", context.power_mode.clone(), plain);
    let limits: Vec<String> =
        context.limits.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    add("limits", Some(limits.join(", ")), CellTone::Code);
    add("to run for", context.duration_seconds.map(|time| time.to_string()), plain);
    add("time limit", context.timeout_seconds.map(|limit| limit.to_string()), plain);
    let others = run.host.others_ratio.map(|share| format!("others used {share} of the cores"));
    let steal = run.host.steal_ratio.map(|share| format!("{share} were stolen"));
    add("host", Some([others, steal].into_iter().flatten().collect::<Vec<_>>().join(", ")), plain);
    add("tags", Some(run.tags.join(", ")), plain);
    add("measured by", Some(context.measured_by.clone()), plain);
    let mut blocks = vec![ReportBlock::Facts(facts)];
    blocks.extend(corunner_table(shown));
    blocks.extend(file_table(shown));
    blocks
}

fn corunner_table(shown: &ReportedRun) -> Option<ReportBlock> {
    let company = &shown.run.context.company;
    let mut table = ReportTable::new("runs beside it", &["beside it", "as", "for", "run"]);
    for other in company.iter().take(MAX_LISTED) {
        let role = match other.role {
            CoRunnerKind::Companion => "companion (it needs it)",
            CoRunnerKind::Neighbour => "neighbour (put there to disturb)",
        };
        table.rows.push(vec![
            ReportCell::text(&other.name),
            ReportCell::text(role),
            ReportCell::number(other.overlap_seconds),
            ReportCell::with_tone(other.run.short(), CellTone::Code),
        ]);
    }
    (!company.is_empty()).then_some(ReportBlock::Table(table))
}

fn file_table(shown: &ReportedRun) -> Option<ReportBlock> {
    let files = &shown.run.artefacts;
    let mut table = ReportTable::new("files of the run", &["file", "kind", "size", "how to get it"]);
    for file in files.iter().take(MAX_LISTED) {
        let name = shell_command_line(std::slice::from_ref(&file.name));
        let id = shown.run.id.short();
        table.rows.push(vec![
            ReportCell::with_tone(shorten(&file.name, 200), CellTone::Code),
            ReportCell::text(&file.media_type),
            ReportCell::number(Some(file.size_bytes)),
            ReportCell::with_tone(
                format!("metier show {id} --artefact {} --save FILE", shorten(&name, 200)),
                CellTone::Code,
            ),
        ]);
    }
    (!files.is_empty()).then_some(ReportBlock::Table(table))
}
