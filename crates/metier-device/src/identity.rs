//! Identity and hardware description of this device, read from local files only.

use std::collections::BTreeSet;
use std::path::Path;

use metier_types::schema::RecordSchema;
use metier_types::{
    Bytes, CpuCache, CpuDescription, Device, DeviceClass, DeviceId, ExtraFields, Hertz, MissingFields,
    MissingReason, UtcTimestamp,
};

use crate::Error;
use metier_linux::KernelRoots;
use metier_linux::host::numbered_folders;
use metier_linux::kernel_file::{self, kib_field};
use metier_store::{atomic_file, digest};

/// Name of the file that stores a generated identity.
const IDENTITY_FILE: &str = "device-id";

/// Describes this device; `data` is the folder for a generated identity where the system has none.
pub fn identify_device(roots: &KernelRoots, data: Option<&Path>) -> Result<Device, Error> {
    let mut missing = MissingFields::new();
    let id = device_id(roots, data, &mut missing)?;
    let kernel = kernel_file::read_text(roots.proc.join("sys/kernel/osrelease"));
    let name =
        kernel_file::read_text(roots.proc.join("sys/kernel/hostname")).unwrap_or_else(|| "unnamed".into());
    let meminfo = std::fs::read_to_string(roots.proc.join("meminfo")).unwrap_or_default();
    let cpuinfo = std::fs::read_to_string(roots.proc.join("cpuinfo")).unwrap_or_default();
    let product = product_name(roots);
    if product.is_none() {
        missing.insert(
            "product".into(),
            MissingReason::without_fix("neither firmware tables nor a device tree name it"),
        );
    }
    let cpu = describe_cpu(roots, &cpuinfo, &mut missing);
    Ok(Device {
        schema: RecordSchema::new(),
        id,
        name,
        class: device_class(roots, &cpuinfo),
        product,
        cpu,
        memory_bytes: kib_field(&meminfo, "MemTotal").map(Bytes),
        swap_bytes: kib_field(&meminfo, "SwapTotal").map(Bytes),
        os: os_name(roots),
        kernel,
        accelerators: Vec::new(),
        sensors: Vec::new(),
        seen: UtcTimestamp::now(),
        missing,
        extra: ExtraFields::new(),
    })
}

/// Describes this device with its accelerators and sensors. This is slower, because it loads driver
/// libraries.
pub fn describe_device(roots: &KernelRoots, data: Option<&Path>) -> Result<Device, Error> {
    let mut device = identify_device(roots, data)?;
    let gpus = crate::gpu_meters::GpuMeters::find(roots, None);
    device.accelerators = gpus.names();
    if let Some(missing) = gpus.missing().filter(|_| device.accelerators.is_empty()) {
        device.missing.insert("accelerators".into(), missing);
    }
    let meters = crate::sensors::EnergyMeters::open(roots);
    device.sensors = meters.names();
    if let Some(missing) = meters.missing().filter(|_| device.sensors.is_empty()) {
        device.missing.insert("sensors".into(), missing);
    }
    let host = metier_linux::host::HostMeter::open(roots);
    for (is, name) in [(host.has_frequency(), "frequency"), (host.has_temperature(), "temperature")] {
        if is {
            device.sensors.push(name.into());
        }
    }
    Ok(device)
}

/// The board's serial number; `None` if it is absent or all zeros, as on some boards.
fn board_serial(roots: &KernelRoots) -> Option<String> {
    let number = kernel_file::read_text(roots.proc.join("device-tree/serial-number"))?;
    let board = kernel_file::read_text(roots.proc.join("device-tree/model")).unwrap_or_default();
    let is_own = number.len() >= 8 && number.chars().any(|digit| digit != '0');
    is_own.then(|| format!("{board} {number}"))
}

/// An identity that persists over restarts and differs between machines. Boards use their serial
/// number, because memory cards are copied together with their machine id. Serial number and
/// machine id are never shown. They are hashed with an application name, as machine-id(5) requires.
fn device_id(
    roots: &KernelRoots,
    data: Option<&Path>,
    missing: &mut MissingFields,
) -> Result<DeviceId, Error> {
    let machine = kernel_file::read_text(roots.etc.join("machine-id"))
        .filter(|id| id.len() >= 16 && id != "uninitialized");
    if let Some(source) = board_serial(roots).or(machine) {
        return hashed_device_id(&format!("metier device {source}"));
    }
    let Some(data) = data else {
        let reason = "no machine id and no folder to store one; the host name is used instead";
        missing.insert("id".into(), MissingReason::with_fix(reason, "systemd-machine-id-setup"));
        return hashed_device_id(&format!(
            "metier host {}",
            kernel_file::read_text(roots.proc.join("sys/kernel/hostname")).unwrap_or_default()
        ));
    };
    let path = data.join(IDENTITY_FILE);
    if let Some(device_id) = kernel_file::read_text(&path).and_then(|text| text.parse().ok()) {
        return Ok(device_id);
    }
    let fresh = hashed_device_id(&format!("metier random {}", metier_types::RunId::new()))?;
    let stored = std::fs::create_dir_all(data).and_then(|()| write_identity(&path, fresh));
    stored.map_err(|reason| Error::System { doing: "cannot store the device's identity", reason })
}

/// Stores an identity atomically. If several programs start at once for the first time, all return
/// the identity that was stored first.
fn write_identity(path: &Path, fresh: DeviceId) -> std::io::Result<DeviceId> {
    let line = format!("{fresh}\n");
    if matches!(atomic_file::create_new_file(path, atomic_file::PUBLIC_FILE_MODE, line.as_bytes()), Ok(true))
    {
        return Ok(fresh);
    }
    if let Some(theirs) = kernel_file::read_text(path).and_then(|text| text.parse().ok()) {
        return Ok(theirs);
    }
    // The file system cannot create without replacing, or the existing file holds no identity.
    atomic_file::replace_file(path, atomic_file::PUBLIC_FILE_MODE, line.as_bytes())?;
    Ok(fresh)
}

fn hashed_device_id(text: &str) -> Result<DeviceId, Error> {
    let id = format!("device-{}", digest::digest_bytes(text.as_bytes()).short());
    id.parse().map_err(|_| Error::Value { field: "device id", got: id, want: "printable characters" })
}

fn product_name(roots: &KernelRoots) -> Option<String> {
    if let Some(board) = kernel_file::read_text(roots.proc.join("device-tree/model")) {
        return Some(board);
    }
    let dmi = roots.sys.join("class/dmi/id");
    let words: Vec<String> =
        ["sys_vendor", "product_name"].iter().filter_map(|f| kernel_file::read_text(dmi.join(f))).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

fn device_class(roots: &KernelRoots, cpuinfo: &str) -> DeviceClass {
    let hypervisor = cpuinfo
        .lines()
        .any(|line| line.starts_with("flags") && line.split_whitespace().any(|w| w == "hypervisor"));
    if Path::new("/.dockerenv").exists() || Path::new("/run/.containerenv").exists() {
        DeviceClass::Container
    } else if roots.proc.join("device-tree/model").exists() {
        DeviceClass::Board
    } else if hypervisor || roots.sys.join("hypervisor/type").exists() {
        DeviceClass::VirtualMachine
    } else if roots.sys.join("class/dmi/id").exists() {
        DeviceClass::Machine
    } else {
        DeviceClass::Unknown
    }
}

fn describe_cpu(roots: &KernelRoots, cpuinfo: &str, missing: &mut MissingFields) -> CpuDescription {
    let field = |key: &str| {
        let line =
            cpuinfo.lines().find(|line| line.split(':').next().is_some_and(|name| name.trim() == key))?;
        line.split_once(':').map(|(_, value)| value.trim().to_string()).filter(|value| !value.is_empty())
    };
    let folder = roots.sys.join("devices/system/cpu");
    let online: Vec<_> = numbered_folders(&folder, "cpu").collect();
    let mut packages = BTreeSet::new();
    let mut cores = BTreeSet::new();
    for cpu in &online {
        let package = kernel_file::read_text(cpu.join("topology/physical_package_id"));
        if let (Some(package), Some(core)) = (package, kernel_file::read_text(cpu.join("topology/core_id"))) {
            cores.insert((package.clone(), core));
            packages.insert(package);
        }
    }
    let count = |set: usize| (set > 0).then_some(set as u32);
    let max = kernel_file::read_number(folder.join("cpu0/cpufreq/cpuinfo_max_freq"));
    if max.is_none() {
        let reason = "the host shows no frequency scaling (usual in virtual machines)";
        missing.insert("cpu.max_frequency_hertz".into(), MissingReason::without_fix(reason));
    }
    let threads = std::thread::available_parallelism().map_or(online.len().max(1), std::num::NonZero::get);
    let first = folder.join("cpu0/cache");
    let caches = numbered_folders(&first, "index")
        .filter_map(|index| {
            let size = kernel_file::read_text(index.join("size"))?;
            let kib: u64 = size.strip_suffix('K')?.parse().ok()?;
            let level = kernel_file::read_number(index.join("level"))? as u32;
            Some(CpuCache {
                level,
                kind: kernel_file::read_text(index.join("type"))?,
                size_bytes: Bytes(kib * 1024),
                extra: ExtraFields::new(),
            })
        })
        .collect();
    CpuDescription {
        model: field("model name").or_else(|| field("Model")).or_else(|| field("Hardware")),
        architecture: std::env::consts::ARCH.to_string(),
        sockets: count(packages.len()),
        cores: count(cores.len()),
        threads: threads as u32,
        max_frequency_hertz: max.map(|khz| Hertz(khz as f64 * 1e3)),
        caches,
        extra: ExtraFields::new(),
    }
}

fn os_name(roots: &KernelRoots) -> Option<String> {
    let text = std::fs::read_to_string(roots.etc.join("os-release")).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim_matches('"').to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn roots(folder: &Path) -> KernelRoots {
        let roots =
            KernelRoots { proc: folder.join("proc"), sys: folder.join("sys"), etc: folder.join("etc") };
        for path in [&roots.proc, &roots.sys, &roots.etc] {
            fs::create_dir_all(path).unwrap();
        }
        roots
    }

    #[test]
    fn the_identity_is_stable_unique_and_hides_the_machine_id() {
        let folder = tempfile::tempdir().unwrap();
        let roots = roots(folder.path());
        fs::write(roots.etc.join("machine-id"), "3d1219c7c4c5404aaa1f6d2a48adfda4\n").unwrap();
        let first = identify_device(&roots, None).unwrap().id;
        assert_eq!(identify_device(&roots, None).unwrap().id, first);
        assert!(!first.as_str().contains("3d1219"));
        fs::write(roots.etc.join("machine-id"), "3d1219c7c4c5404aaa1f6d2a48adfda5\n").unwrap();
        assert_ne!(identify_device(&roots, None).unwrap().id, first);
    }

    #[test]
    fn boards_with_copies_of_one_memory_card_are_two_devices() {
        let folder = tempfile::tempdir().unwrap();
        let roots = roots(folder.path());
        fs::write(roots.etc.join("machine-id"), "3d1219c7c4c5404aaa1f6d2a48adfda4\n").unwrap();
        let tree = roots.proc.join("device-tree");
        fs::create_dir_all(&tree).unwrap();
        fs::write(tree.join("model"), "Raspberry Pi 4 Model B Rev 1.4\0").unwrap();
        let with = |serial: &str| {
            fs::write(tree.join("serial-number"), format!("{serial}\0")).unwrap();
            identify_device(&roots, None).unwrap().id
        };
        let first = with("10000000a3b4c5d6");
        assert_ne!(with("10000000a3b4c5d7"), first);
        // Another card, or a new system on it, is the same board.
        fs::write(roots.etc.join("machine-id"), "aaaaaaaac4c5404aaa1f6d2a48adfda4\n").unwrap();
        assert_eq!(with("10000000a3b4c5d6"), first);
        // A number that all boards of a model share is ignored.
        let zeros = with("0000000000000000");
        fs::write(roots.etc.join("machine-id"), "bbbbbbbbc4c5404aaa1f6d2a48adfda4\n").unwrap();
        assert_ne!(with("0000000000000000"), zeros);
    }

    #[test]
    fn a_device_without_an_identity_gets_one_that_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let roots = roots(folder.path());
        let data = folder.path().join("data");
        let first = identify_device(&roots, Some(&data)).unwrap().id;
        assert_eq!(identify_device(&roots, Some(&data)).unwrap().id, first);
        assert_ne!(identify_device(&roots, Some(&folder.path().join("other"))).unwrap().id, first);
    }

    #[test]
    fn programs_that_start_at_once_agree_on_the_identity() {
        for _ in 0..20 {
            let folder = tempfile::tempdir().unwrap();
            let (roots, data) = (roots(folder.path()), folder.path().join("data"));
            let start = std::sync::Barrier::new(8);
            let ids: Vec<DeviceId> = std::thread::scope(|scope| {
                let one = || {
                    start.wait();
                    identify_device(&roots, Some(&data)).unwrap().id
                };
                let threads: Vec<_> = (0..8).map(|_| scope.spawn(one)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
            assert_eq!(fs::read_dir(&data).unwrap().count(), 1, "only the identity is kept");
        }
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(IDENTITY_FILE), "").unwrap();
        let roots = roots(folder.path());
        let id = identify_device(&roots, Some(folder.path())).unwrap().id;
        assert_eq!(identify_device(&roots, Some(folder.path())).unwrap().id, id, "an empty file is replaced");
    }

    #[test]
    fn a_board_is_known_by_its_device_tree() {
        let folder = tempfile::tempdir().unwrap();
        let roots = roots(folder.path());
        fs::create_dir_all(roots.proc.join("device-tree")).unwrap();
        fs::write(roots.proc.join("device-tree/model"), "Raspberry Pi 4 Model B Rev 1.4\0").unwrap();
        let device = identify_device(&roots, None).unwrap();
        assert_eq!(device.product.as_deref(), Some("Raspberry Pi 4 Model B Rev 1.4"));
        if !Path::new("/.dockerenv").exists() && !Path::new("/run/.containerenv").exists() {
            assert_eq!(device.class, DeviceClass::Board);
        }
    }
}
