//! Checks which measurements this host allows, with the exact fix for each that it does not.

use metier_store::RecordStore;
use metier_types::MissingReason;

use crate::runner::container;
use crate::stacks::StackObserver;
use metier_device::gpu_meters::GpuMeters;
use metier_device::sensors::EnergyMeters;
use metier_linux::cgroup::{CgroupMembership, RunCgroup, systemd_scope};
use metier_linux::host::HostMeter;
use metier_linux::process_events::ProcessWatch;
use metier_linux::{KernelRoots, group_owner};

/// One check of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCheck {
    /// Name of the check.
    pub name: &'static str,
    /// Whether the check passed.
    pub ok: bool,
    pub text: String,
    /// How to fix a failed check.
    pub fix: Option<String>,
}

impl HostCheck {
    fn passed(name: &'static str, text: impl Into<String>) -> Self {
        Self { name, ok: true, text: text.into(), fix: None }
    }

    fn failed(name: &'static str, missing: MissingReason) -> Self {
        Self { name, ok: false, text: missing.reason, fix: missing.fix }
    }

    fn from_result(name: &'static str, found: Result<String, MissingReason>) -> Self {
        match found {
            Ok(text) => Self::passed(name, text),
            Err(missing) => Self::failed(name, missing),
        }
    }
}

/// Checks everything that a run would use.
pub fn check_host(roots: &KernelRoots, store: Option<&RecordStore>) -> Vec<HostCheck> {
    let mut checks = check_cgroups(roots);
    checks.push(HostCheck::from_result(
        "process events",
        ProcessWatch::open().map(|watch| match watch.has_statistics() {
            true => "every child process is recorded, with its exact use".to_string(),
            false => "every child process is recorded; its use is sampled".to_string(),
        }),
    ));
    let mut host = HostMeter::open(roots);
    let pressure = host.read_counters().pressure_ns.iter().all(Option::is_some);
    checks.push(HostCheck::from_result(
        "pressure",
        if pressure {
            Ok("cpu, memory and io".into())
        } else {
            Err(MissingReason::with_fix("the kernel gives no pressure figures", "boot with psi=1"))
        },
    ));
    let vm = |what: &str| {
        Err(MissingReason::without_fix(format!("the host shows no {what} (usual in virtual machines)")))
    };
    let reading = host.read();
    checks.push(HostCheck::from_result(
        "frequency",
        reading.frequency_hertz.map_or_else(|| vm("clock frequency"), |f| Ok(f.to_string())),
    ));
    checks.push(HostCheck::from_result(
        "temperature",
        reading.temperature_celsius.map_or_else(|| vm("temperature sensor"), |t| Ok(t.to_string())),
    ));
    let meters = EnergyMeters::open(roots);
    checks.push(HostCheck::from_result(
        "energy",
        meters.missing().map_or_else(|| Ok(meters.names().join(", ")), Err),
    ));
    checks.push(HostCheck::from_result("stacks", StackObserver::check_permission(roots)));
    let gpus = GpuMeters::find(roots, None);
    checks
        .push(HostCheck::from_result("gpu", gpus.missing().map_or_else(|| Ok(gpus.names().join(", ")), Err)));
    checks.push(HostCheck::from_result("containers", container::engine::check_engine()));
    if let Some(store) = store {
        checks.push(match store.check_health() {
            Ok(health) if health.problems.is_empty() => {
                let size = health.size_bytes;
                HostCheck::passed(
                    "store",
                    format!("{} with {} runs, {size}, at {}", health.engine, health.runs, health.location),
                )
            }
            Ok(health) => HostCheck::failed(
                "store",
                MissingReason::with_fix(
                    health.problems.join("; "),
                    "metier export --all from a copy, then import into a new store",
                ),
            ),
            Err(error) => HostCheck::failed("store", MissingReason::without_fix(error.to_string())),
        });
    }
    checks
}

/// Creates a control group as a run would, and removes it again.
fn check_cgroups(roots: &KernelRoots) -> Vec<HostCheck> {
    let place = CgroupMembership::read(&roots.proc, "self");
    let name = group_owner::group_name(roots, metier_types::RunId::new());
    // SAFETY: takes no arguments and cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    let mut made = RunCgroup::create(&place, &name);
    let has_memory =
        made.as_ref().is_ok_and(|group| group.has_v2_memory() || group.v1.contains_key("memory"));
    let has_io =
        made.as_ref().is_ok_and(|group| group.v2.as_ref().is_some_and(|f| f.join("io.stat").exists()));
    let method = made.as_ref().map(|group| group.method.to_string()).unwrap_or_default();
    if let Ok(group) = &mut made {
        group.remove_folders();
    }
    let no_memory = MissingReason::with_fix(
        "control groups are available, but without memory accounting",
        "run as root, or in a systemd user session",
    );
    if has_memory {
        let mut checks =
            vec![HostCheck::passed("control group", format!("exact CPU time and memory peak: {method}"))];
        checks.push(HostCheck::from_result(
            "block io",
            if has_io {
                Ok("device traffic is charged to the run".into())
            } else {
                Ok("counted by wait4; device traffic is not charged to the run here".into())
            },
        ));
        return checks;
    }
    if is_root {
        return vec![HostCheck::failed("control group", made.err().unwrap_or(no_memory))];
    }
    let found = systemd_scope::find_session_bus()
        .map(|bus| format!("a delegated systemd scope, asked for at {}", bus.display()));
    vec![HostCheck::from_result("control group", found)]
}
