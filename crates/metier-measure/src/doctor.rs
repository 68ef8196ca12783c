//! What this host lets us measure, and the exact fix for what it does not.

use metier_store::Store;
use metier_types::Missing;

use crate::runner::container;
use crate::stacks::Stacks;
use metier_device::gpu::Gpus;
use metier_device::sensors::Meters;
use metier_linux::cgroup::{Group, Place, scope};
use metier_linux::events::Watch;
use metier_linux::host::HostMeter;
use metier_linux::{Roots, group_owner};

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What it is about.
    pub name: &'static str,
    /// Whether it is as it should be.
    pub ok: bool,
    pub text: String,
    /// What to do where it is not.
    pub fix: Option<String>,
}

impl Check {
    fn good(name: &'static str, text: impl Into<String>) -> Self {
        Self { name, ok: true, text: text.into(), fix: None }
    }

    fn bad(name: &'static str, missing: Missing) -> Self {
        Self { name, ok: false, text: missing.reason, fix: missing.fix }
    }

    fn from(name: &'static str, found: Result<String, Missing>) -> Self {
        match found {
            Ok(text) => Self::good(name, text),
            Err(missing) => Self::bad(name, missing),
        }
    }
}

/// Looks at everything that a run would use.
pub fn checks(roots: &Roots, store: Option<&Store>) -> Vec<Check> {
    let mut checks = group_checks(roots);
    checks.push(Check::from(
        "process events",
        Watch::open().map(|watch| match watch.has_statistics() {
            true => "every child is seen, with what it used".to_string(),
            false => "every child is seen; what it used only as sampled".to_string(),
        }),
    ));
    let mut host = HostMeter::open(roots);
    let pressure = host.counters().pressure_ns.iter().all(Option::is_some);
    checks.push(Check::from(
        "pressure",
        if pressure {
            Ok("cpu, memory and io".into())
        } else {
            Err(Missing::fixable("the kernel gives no pressure figures", "boot with psi=1"))
        },
    ));
    let vm =
        |what: &str| Err(Missing::because(format!("the host shows no {what} (usual in virtual machines)")));
    let reading = host.reading();
    checks.push(Check::from(
        "frequency",
        reading.frequency_hertz.map_or_else(|| vm("clock frequency"), |f| Ok(f.to_string())),
    ));
    checks.push(Check::from(
        "temperature",
        reading.temperature_celsius.map_or_else(|| vm("temperature sensor"), |t| Ok(t.to_string())),
    ));
    let meters = Meters::open(roots);
    checks.push(Check::from("energy", meters.missing().map_or_else(|| Ok(meters.names().join(", ")), Err)));
    checks.push(Check::from("stacks", Stacks::permitted(roots)));
    let gpus = Gpus::find(roots, None);
    checks.push(Check::from("gpu", gpus.missing().map_or_else(|| Ok(gpus.names().join(", ")), Err)));
    checks.push(Check::from("containers", container::engine::check()));
    if let Some(store) = store {
        checks.push(match store.check() {
            Ok(health) if health.problems.is_empty() => {
                let size = health.size_bytes;
                Check::good(
                    "store",
                    format!("{} with {} runs, {size}, at {}", health.engine, health.runs, health.location),
                )
            }
            Ok(health) => Check::bad(
                "store",
                Missing::fixable(
                    health.problems.join("; "),
                    "metier export --all from a copy, then import into a new store",
                ),
            ),
            Err(error) => Check::bad("store", Missing::because(error.to_string())),
        });
    }
    checks
}

/// Makes a group as a run would, and takes it away again.
fn group_checks(roots: &Roots) -> Vec<Check> {
    let place = Place::of(&roots.proc, "self");
    let name = group_owner::group_name(roots, metier_types::RunId::new());
    // SAFETY: takes nothing, cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    let mut made = Group::make(&place, &name);
    let has_memory =
        made.as_ref().is_ok_and(|group| group.has_v2_memory() || group.v1.contains_key("memory"));
    let has_io =
        made.as_ref().is_ok_and(|group| group.v2.as_ref().is_some_and(|f| f.join("io.stat").exists()));
    let method = made.as_ref().map(|group| group.method.to_string()).unwrap_or_default();
    if let Ok(group) = &mut made {
        group.discard();
    }
    let no_memory = Missing::fixable(
        "a control group can be had, but not with memory accounting",
        "run as root, or in a systemd user session",
    );
    if has_memory {
        let mut checks =
            vec![Check::good("control group", format!("exact CPU time and memory peak: {method}"))];
        checks.push(Check::from(
            "block io",
            if has_io {
                Ok("device traffic is charged to the run".into())
            } else {
                Ok("as wait4 counts it; device traffic is not charged to the run here".into())
            },
        ));
        return checks;
    }
    if is_root {
        return vec![Check::bad("control group", made.err().unwrap_or(no_memory))];
    }
    let found =
        scope::offered().map(|bus| format!("a delegated systemd scope, asked for at {}", bus.display()));
    vec![Check::from("control group", found)]
}
