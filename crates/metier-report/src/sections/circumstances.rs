//! The conditions of a run: command, device, image, pod, dataset, limits, co-runners, files.

use metier_types::Role;

use crate::Measured;
use crate::blocks::{Block, Cell, Table, Tone};
use crate::words::{command, ending, moment, shortened};

/// Maximum number of listed co-runners and files.
const LISTED: usize = 50;

pub fn blocks(shown: &Measured) -> Vec<Block> {
    let run = &shown.run;
    let context = &run.context;
    let mut facts: Vec<(String, Cell)> = Vec::new();
    let mut add = |label: &str, value: Option<String>, tone: Tone| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            facts.push((label.to_string(), Cell::toned(shortened(&value, 4000), tone)));
        }
    };
    let plain = Tone::Plain;
    add("run", Some(run.id.to_string()), Tone::Code);
    add("command", Some(command(&context.command)), Tone::Code);
    add("device", Some(run.device.name.clone()), plain);
    add("started", Some(moment(run.started)), plain);
    add("end", Some(ending(run.state, run.exit.as_ref())), plain);
    if let Some(image) = &context.image {
        add("image", Some(image.reference.clone()), Tone::Code);
        add("… content", image.digest.map(|digest| digest.to_string()), Tone::Code);
        add("… run by", Some(image.engine.clone()), plain);
    }
    if let Some(pod) = &context.pod {
        add("pod", Some(format!("{}/{}", pod.namespace, pod.name)), Tone::Code);
        add("… on node", pod.node.clone(), plain);
    }
    if let Some(dataset) = &context.dataset {
        add("dataset", Some(dataset.source.clone()), Tone::Code);
        let cached = if dataset.was_cached { "already here" } else { "fetched" };
        let took = dataset.fetch_seconds.map(|took| format!(" in {took}")).unwrap_or_default();
        let cache = format!("{:?}", dataset.page_cache).to_lowercase();
        add("… content", Some(format!("{}, {}", dataset.digest, dataset.size_bytes)), Tone::Code);
        add("… state", Some(format!("{cached}{took}; page cache {cache}")), plain);
    }
    add("executable", context.executable_digest.map(|digest| digest.to_string()), Tone::Code);
    add("input", context.input.clone(), Tone::Code);
    add("kernel", context.kernel.clone(), plain);
    add("power mode", context.power_mode.clone(), plain);
    let limits: Vec<String> =
        context.limits.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    add("limits", Some(limits.join(", ")), Tone::Code);
    add("to run for", context.duration_seconds.map(|time| time.to_string()), plain);
    add("time limit", context.timeout_seconds.map(|limit| limit.to_string()), plain);
    let others = run.host.others_ratio.map(|share| format!("others used {share} of the cores"));
    let steal = run.host.steal_ratio.map(|share| format!("{share} were stolen"));
    add("host", Some([others, steal].into_iter().flatten().collect::<Vec<_>>().join(", ")), plain);
    add("tags", Some(run.tags.join(", ")), plain);
    add("measured by", Some(context.measured_by.clone()), plain);
    let mut blocks = vec![Block::Facts(facts)];
    blocks.extend(company(shown));
    blocks.extend(files(shown));
    blocks
}

fn company(shown: &Measured) -> Option<Block> {
    let company = &shown.run.context.company;
    let mut table = Table::new("runs beside it", &["beside it", "as", "for", "run"]);
    for other in company.iter().take(LISTED) {
        let role = match other.role {
            Role::Companion => "companion (it needs it)",
            Role::Neighbour => "neighbour (put there to disturb)",
        };
        table.rows.push(vec![
            Cell::text(&other.name),
            Cell::text(role),
            Cell::number(other.overlap_seconds),
            Cell::toned(other.run.short(), Tone::Code),
        ]);
    }
    (!company.is_empty()).then_some(Block::Table(table))
}

fn files(shown: &Measured) -> Option<Block> {
    let files = &shown.run.artefacts;
    let mut table = Table::new("files of the run", &["file", "kind", "size", "how to get it"]);
    for file in files.iter().take(LISTED) {
        let name = command(std::slice::from_ref(&file.name));
        let id = shown.run.id.short();
        table.rows.push(vec![
            Cell::toned(shortened(&file.name, 200), Tone::Code),
            Cell::text(&file.media_type),
            Cell::number(Some(file.size_bytes)),
            Cell::toned(
                format!("metier show {id} --artefact {} --save FILE", shortened(&name, 200)),
                Tone::Code,
            ),
        ]);
    }
    (!files.is_empty()).then_some(Block::Table(table))
}
