//! The flags of `metier run`: those of run-file fields, and the others.

use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use metier_session::runfile::{FlagGroup, GivenFlag, RunFlag, run_flags};

/// A command's groups of run-file flags.
pub trait FlagGroupSet: Clone + Send + Sync + 'static {
    const GROUPS: &'static [FlagGroup];
}

/// All groups.
#[derive(Debug, Clone, Default)]
pub struct AllFlagGroups;

/// Groups for limits and storing, without those for the command and its measurement.
#[derive(Debug, Clone, Default)]
pub struct SetupFlagGroups;

impl FlagGroupSet for AllFlagGroups {
    const GROUPS: &'static [FlagGroup] = &FlagGroup::ALL;
}

impl FlagGroupSet for SetupFlagGroups {
    const GROUPS: &'static [FlagGroup] = &[FlagGroup::Surroundings, FlagGroup::Keeping];
}

/// The run-file flags given.
#[derive(Debug, Clone, Default)]
pub struct RunFileFlags<G> {
    pub given: Vec<GivenFlag>,
    groups: std::marker::PhantomData<G>,
}

fn group_flags<G: FlagGroupSet>() -> impl Iterator<Item = &'static RunFlag> {
    G::GROUPS.iter().flat_map(|group| run_flags().filter(move |flag| flag.group == *group))
}

fn clap_argument(flag: &'static RunFlag) -> Arg {
    let arg = Arg::new(flag.name).long(flag.name).help(flag.help_text()).help_heading(flag.group.heading());
    if flag.value.is_empty() {
        return arg.action(ArgAction::SetTrue);
    }
    let arg = arg.value_name(flag.value).action(match flag.is_list {
        true => ArgAction::Append,
        false => ArgAction::Set,
    });
    match flag.name {
        "pod" => arg.visible_alias("kube").conflicts_with("image"),
        "entrypoint" => arg.allow_hyphen_values(true),
        "listen" => arg.value_delimiter(','),
        "stacks" => arg.num_args(0..=1).require_equals(true).default_missing_value("99"),
        _ => arg,
    }
}

impl<G: FlagGroupSet> Args for RunFileFlags<G> {
    fn augment_args(command: Command) -> Command {
        command.args(group_flags::<G>().map(clap_argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<G: FlagGroupSet> FromArgMatches for RunFileFlags<G> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_given = |flag: &&RunFlag| matches.value_source(flag.name) == Some(ValueSource::CommandLine);
        let values = |flag: &'static RunFlag| match flag.value.is_empty() {
            true => Vec::new(),
            false => matches.get_many::<String>(flag.name).into_iter().flatten().cloned().collect(),
        };
        let given = group_flags::<G>()
            .filter(is_given)
            .map(|flag| GivenFlag { flag, values: values(flag) })
            .collect();
        Ok(Self { given, groups: std::marker::PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<G> RunFileFlags<G> {
    pub fn has(&self, name: &str) -> bool {
        self.given.iter().any(|given| given.flag.name == name)
    }
}

/// Flags of the dataset cache.
#[derive(Debug, Default, Clone, Args)]
#[command(next_help_heading = "Dataset")]
pub struct DatasetCacheArgs {
    /// Cache folder of datasets [default ~/.cache/metier/datasets]
    #[arg(long, value_name = "FOLDER")]
    pub dataset_cache: Option<PathBuf>,
    /// Size limit of the dataset cache: 50Gi; least recently used datasets are deleted first
    /// [METIER_RUN_DATASET_CACHE_LIMIT; default none]
    #[arg(long, value_name = "SIZE")]
    pub dataset_cache_limit: Option<String>,
}

/// Flags of storing records.
#[derive(Debug, Default, Clone, Args)]
#[command(next_help_heading = "Keeping")]
pub struct RecordKeepingArgs {
    /// Write the record to this file too (metier.run/1; with --repeat metier.runs/1; with
    /// --alternate two, A,B)
    #[arg(long, value_name = "FILE")]
    pub save_json: Option<PathBuf>,
    /// Store nothing
    #[arg(long)]
    pub no_store: bool,
}
