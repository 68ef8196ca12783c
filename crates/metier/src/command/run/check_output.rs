//! `--check`: prints the checked run without running it.

use metier_measure::spec::RunTarget;
use metier_session::runfile::{CheckedRun, without_secrets};
use metier_types::Seconds;

use crate::command::CommandContext;
use crate::output::{self, DataFormat, StreamPaint, TableCell, TextTable};

/// Prints the checked run: a summary as text, the whole file as data.
pub fn print_checked(context: &CommandContext, checked: &CheckedRun) -> anyhow::Result<()> {
    context.console.write_data(|out| match context.console.format {
        DataFormat::Json => output::write_json(out, &checked.file),
        DataFormat::Yaml => output::write_yaml(out, &checked.file),
        DataFormat::Csv => output::write_csv(
            out,
            ["field", "value"],
            checked_lines(checked).into_iter().map(|(name, value)| vec![name.to_string(), value]),
        ),
        DataFormat::Table => {
            let mut table = TextTable::default();
            for (name, value) in checked_lines(checked) {
                table.add_row(vec![TableCell::text(name).styled(StreamPaint::dim), TableCell::text(value)]);
            }
            Ok(out.write_all(table.render(context.console.paint).as_bytes())?)
        }
    })
}

fn checked_lines(checked: &CheckedRun) -> Vec<(&'static str, String)> {
    let (file, spec) = (&checked.file, &checked.spec);
    let mut lines: Vec<(&'static str, String)> = Vec::new();
    let mut line = |name, value: Option<String>| {
        lines.extend(value.filter(|v| !v.is_empty()).map(|value| (name, value)))
    };
    let time = |time: std::time::Duration| Some(Seconds(time.as_secs_f64()).to_string());
    let kind = match &spec.target {
        RunTarget::Command(_) => "command",
        RunTarget::Container(_) => "image",
        RunTarget::Pod(_) => "pod",
    };
    line(kind, Some(shell_words(&spec.target.words())));
    line("name", spec.name.as_ref().map(ToString::to_string));
    line("tags", Some(spec.tags.join(", ")));
    // Values may be secrets, so only names are printed.
    line(
        "environment",
        Some(spec.environment.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")),
    );
    line("working directory", spec.working_directory.as_ref().map(|path| path.display().to_string()));
    for mount in &spec.mounts {
        let how = if mount.read_only { " (read only)" } else { "" };
        line("mount", Some(format!("{} at {}{how}", mount.source.display(), mount.target.display())));
    }
    if let Some(dataset) = &file.dataset {
        line("dataset", Some(without_secrets(&dataset.source)));
        line("  digest", dataset.digest.clone());
        line("  page cache", dataset.page_cache.clone());
    }
    line("input", file.input.clone());
    let limits = [("cpu", &file.limits.cpu), ("memory", &file.limits.memory), ("gpu", &file.limits.gpu)];
    let limits =
        limits.iter().filter_map(|(name, limit)| limit.as_ref().map(|limit| format!("{name} {limit}")));
    line("limits", Some(limits.collect::<Vec<_>>().join(", ")));
    for other in &checked.needs {
        line("needs", Some(shell_words(&other.spec.target.words())));
    }
    for other in &checked.with {
        line("with", Some(shell_words(&other.spec.target.words())));
    }
    if let Some(ready) = &file.ready {
        let sign =
            [("port", &ready.port), ("http", &ready.http), ("file", &ready.file), ("output", &ready.output)];
        let sign = sign.iter().find_map(|(name, sign)| sign.as_ref().map(|sign| format!("{name} {sign}")));
        line("ready", sign);
    }
    let warmup =
        if checked.warmup > 0 { format!(" after {} to warm up", checked.warmup) } else { String::new() };
    let stop = if file.stop_on_failure { ", until one fails" } else { "" };
    let times = if checked.repeats == 1 { "once".to_string() } else { format!("{} times", checked.repeats) };
    line("measured", Some(format!("{times}{warmup}{stop}")));
    line("runs for", spec.duration.and_then(time));
    line("time limit", spec.timeout.and_then(time));
    line("grace", time(spec.grace));
    line("linger", time(spec.linger));
    line("interval", time(spec.interval));
    let listen = &file.listen;
    let on = [
        (listen.socket_path.as_deref().unwrap_or("socket"), listen.socket),
        ("pywaggle", listen.pywaggle),
        ("lines", listen.lines),
    ];
    let on = on
        .iter()
        .filter(|(_, is)| *is)
        .map(|(name, _)| name.to_string())
        .chain(listen.scrape.iter().map(|url| without_secrets(url)));
    line("listens to", Some(on.collect::<Vec<_>>().join(", ")));
    line("stacks", file.stacks.map(|rate| format!("{rate} times a second")));
    line("artefacts", Some(spec.artefacts.join(", ")));
    lines
}

/// Words as one line, quoted so that each is distinct.
fn shell_words(words: &[String]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,{}".contains(c);
    let word = |word: &String| match !word.is_empty() && word.chars().all(is_plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}
