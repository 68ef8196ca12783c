//! `metier power specpower`, `ec2`: the two published pipelines, learned anew from their measurements.

use std::path::{Path, PathBuf};

use clap::Args;
use metier_power::training::published::{self, EC2, EC2_IMAGE};
use metier_power::training::{self, Known, Machine, Plan, Tables};
use metier_power::vocabulary::{Source as Energy, Trainer};
use metier_session::dataset::{self, Cache, Watch};
use metier_session::runfile::{DATASET_TARGET, Source, Wanted};
use metier_types::{PageCache, Timestamp};

use super::files::Data;
use super::flags::{self, Paths};
use super::train::{finish, with_progress};
use crate::command::Room;
use crate::command::run::fetching::Fetching;
use crate::config::dataset_folder;
use crate::exit::{Code, usage};

const EXAMPLES: &str = "Examples:
  metier power specpower --from http://localhost:8080 -p specpower        index.json and the tables that it lists
  metier power specpower --from ./spec_power_db -p specpower --abs-trainers auto --dyn-trainers auto
  metier power ec2 --from s3://kepler-power-model/ -p ec2                 <machine>/data/kepler_query.json and machine_spec
  metier power ec2 --from ./kepler-power-model --instance m5.metal,c5.metal";

/// Where measurements come from, and who learns.
#[derive(Debug, Args)]
struct From {
    /// Folder, http(s):// or s3:// address that the measurements lie below
    #[arg(long, value_name = "PLACE")]
    from: String,
    /// Who learns power with idle [default: all ten of Kepler]
    #[arg(long, value_name = "TRAINER", value_delimiter = ',', value_parser = flags::trainer)]
    abs_trainers: Option<Vec<Trainer>>,
    /// Who learns power without idle [default: all ten of Kepler]
    #[arg(long, value_name = "TRAINER", value_delimiter = ',', value_parser = flags::trainer)]
    dyn_trainers: Option<Vec<Trainer>>,
    #[command(flatten)]
    paths: Paths,
}

impl From {
    fn plan(&self, name: &str, source: Energy) -> anyhow::Result<Plan> {
        let every = || Trainer::KEPLER.to_vec();
        let plan = Plan {
            sources: vec![source],
            abs_trainers: self.abs_trainers.clone().unwrap_or_else(every),
            dyn_trainers: self.dyn_trainers.clone().unwrap_or_else(every),
            ..Plan::new(name, Timestamp::now())
        };
        plan.check().map_err(|error| usage(error.to_string()))?;
        Ok(plan)
    }

    /// One file below the place, wherever that is.
    fn file(&self, room: &Room, name: &str) -> anyhow::Result<Vec<u8>> {
        let path = self.path(room, name)?;
        std::fs::read(&path)
            .map_err(|error| usage(format!("--from {}: {}: {error}", self.from, path.display())))
    }

    fn path(&self, room: &Room, name: &str) -> anyhow::Result<PathBuf> {
        let base = self.from.trim_end_matches('/');
        let source = match base.split_once("://") {
            None => return Ok(PathBuf::from(&self.from).join(name)),
            Some(("http" | "https", _)) => Source::Http(format!("{base}/{name}")),
            Some(("s3", rest)) => {
                let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
                let key = if prefix.is_empty() { name.to_string() } else { format!("{prefix}/{name}") };
                Source::S3 { bucket: bucket.to_string(), key, endpoint: None, region: None }
            }
            Some((scheme, _)) => {
                return Err(usage(format!(
                    "--from is {scheme}://…; want a folder, http://, https:// or s3://"
                )));
            }
        };
        let wanted = Wanted {
            source,
            digest: None,
            target: DATASET_TARGET.to_string(),
            page_cache: PageCache::Untouched,
        };
        let fetching = Fetching::new(&room.console);
        let go_on = || false;
        let watch = Watch::new(&wanted.source, &fetching, &go_on);
        let cache = || match dataset_folder() {
            Some(folder) => Cache::open(&folder),
            None => Err(dataset::Error::Unfit {
                source_name: dataset::name_of(&wanted.source),
                what: "has no place to go: neither XDG_CACHE_HOME nor HOME is an absolute path".into(),
                want: "HOME, or a folder that was fetched before",
            }),
        };
        let obtained = dataset::obtain(&wanted, &cache, &watch);
        fetching.end();
        Ok(obtained?.path)
    }
}

/// Learn the SPECpower pipeline from its tables
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Specpower {
    /// Name of the pipeline
    #[arg(short, long, value_name = "NAME", default_value = "specpower-0.7.11")]
    pipeline_name: String,
    #[command(flatten)]
    from: From,
}

impl Specpower {
    pub fn run(&self, room: &Room) -> anyhow::Result<Code> {
        let data: Data = self.from.paths.data();
        let mut plan = self.from.plan(&self.pipeline_name, Energy::Acpi)?;
        plan.groups = vec![metier_power::vocabulary::FeatureGroup::BpfOnly];
        let names = published::index(&self.from.file(room, "index.json")?)
            .map_err(|error| usage(format!("--from {}: {error}", self.from.from)))?;
        let folder = data.0.join(&plan.name);
        let mut tables = Tables::default();
        let mut missing = Vec::new();
        for name in &names {
            let id = name.rsplit('/').next().unwrap_or(name).trim_end_matches(".csv");
            let text = match self.from.file(room, name) {
                Ok(text) => text,
                // One that cannot be had is not the end of the others.
                Err(error) => {
                    missing.push(format!("{name} was left out: {error:#}"));
                    continue;
                }
            };
            match published::specpower(id, &text) {
                Ok(one) => {
                    let node_type = training::join(&folder, Some(&one.machine))?;
                    tables.append(published::specpower_tables(&one, &plan, node_type)?)?;
                }
                // One machine that is not whole is not the end of the others.
                Err(error) => tables.warnings.push(format!("{error}; left out")),
            }
        }
        tables.warnings.extend(missing.iter().cloned());
        if tables.list.is_empty() {
            return Err(usage(format!(
                "--from {}: no table can be learned from: {}",
                self.from.from,
                tables.warnings.join("; ")
            )));
        }
        let outcome =
            with_progress(room, |progress| training::train_pipeline(&tables, &plan, &data.0, progress))?;
        let code = finish(room, &outcome)?;
        Ok(if missing.is_empty() { code } else { Code::PARTIAL })
    }
}

/// Learn the EC2 pipeline from its query responses
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Ec2 {
    /// Name of the pipeline
    #[arg(short, long, value_name = "NAME", default_value = "ec2-0.7.11")]
    pipeline_name: String,
    /// Only these instances [default: the six that are published]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    instance: Vec<String>,
    #[command(flatten)]
    from: From,
}

impl Ec2 {
    pub fn run(&self, room: &Room) -> anyhow::Result<Code> {
        let data = self.from.paths.data();
        let plan = self.from.plan(&self.pipeline_name, Energy::RaplSysfs)?;
        let folder = data.0.join(&plan.name);
        let published: Vec<String> = EC2.iter().map(ToString::to_string).collect();
        let instances = if self.instance.is_empty() { &published } else { &self.instance };
        let mut tables = Tables::default();
        let mut missing = Vec::new();
        for instance in instances {
            match self.one(room, instance, &plan, &folder) {
                Ok(of) => tables.append(of)?,
                // One that cannot be had is not the end of the others.
                Err(error) => missing.push(format!("{instance} was left out: {error:#}")),
            }
        }
        if tables.list.is_empty() {
            let why = missing.join("; ");
            return Err(usage(format!("--from {}: nothing can be learned from: {why}", self.from.from)));
        }
        tables.warnings.extend(missing.iter().cloned());
        let outcome =
            with_progress(room, |progress| training::train_pipeline(&tables, &plan, &data.0, progress))?;
        let code = finish(room, &outcome)?;
        Ok(if missing.is_empty() { code } else { Code::PARTIAL })
    }

    /// The tables of one instance.
    fn one(&self, room: &Room, instance: &str, plan: &Plan, folder: &Path) -> anyhow::Result<Tables> {
        let id = format!("{instance}-{EC2_IMAGE}");
        let (spec_name, query_name) =
            (format!("{id}/data/machine_spec/{id}.json"), format!("{id}/data/kepler_query.json"));
        let wrong = |name: &str, why: String| usage(format!("--from {}: {name}: {why}", self.from.from));
        let spec = serde_json::from_slice(&self.from.file(room, &spec_name)?)
            .map_err(|error| wrong(&spec_name, error.to_string()))?;
        let machine = Machine { id, spec };
        let response = metier_power::response::Response::read(&self.from.file(room, &query_name)?)
            .map_err(|error| wrong(&query_name, error.to_string()))?;
        let node_type = training::join(folder, Some(&machine))?;
        training::tables(&response, Known::default(), plan, node_type)
            .map_err(|error| wrong(&query_name, error.to_string()))
    }
}
