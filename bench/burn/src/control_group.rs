//! Finds the cgroup of this process, and creates, enters, reads and removes a cgroup inside it.
//!
//! There are three layouts: v2 only; v1 with one mount per controller (or several joined); and
//! hybrid, with controllers on v1 and a v2 tree without them. The layout is determined per
//! controller from `/proc/self/cgroup`, never from conventional paths.
//!
//! Deliberately not shared with the measuring program: this is its independent reference.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::arguments::Problem;
use crate::system;

/// The cgroup directory of this process for one controller, or in the v2 tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The group's directory.
    pub directory: PathBuf,
    /// Whether it is on cgroup v2.
    pub unified: bool,
}

/// The cgroups that account this process: for CPU time and memory, possibly the same.
#[derive(Debug)]
pub struct Here {
    /// The cgroup that counts CPU time.
    pub cpu: Place,
    /// The cgroup that counts memory; `None` without a usable memory controller.
    pub memory: Option<Place>,
}

/// Resolves the cgroups of this process.
pub fn here() -> Result<Here, Problem> {
    let read =
        |path: &str| fs::read_to_string(path).map_err(|e| Problem::failed(format!("read {path}: {e}")));
    resolve(&read("/proc/self/cgroup")?, &read("/proc/self/mountinfo")?)
}

/// Resolves them from the text of the two files.
pub fn resolve(groups: &str, mounts: &str) -> Result<Here, Problem> {
    let cpu = place(groups, mounts, "cpuacct").or_else(|| place(groups, mounts, ""));
    let cpu = cpu.ok_or_else(|| {
        Problem::failed(
            "no control group counts CPU time here: want a mounted cpuacct (version 1) or cgroup2 tree",
        )
    })?;
    let memory = place(groups, mounts, "memory").or_else(|| {
        let unified = place(groups, mounts, "")?;
        let offered = fs::read_to_string(unified.directory.join("cgroup.controllers")).ok()?;
        offered.split_whitespace().any(|name| name == "memory").then_some(unified)
    });
    Ok(Here { cpu, memory })
}

/// The directory of a v1 controller; with an empty name, that of the v2 tree.
fn place(groups: &str, mounts: &str, controller: &str) -> Option<Place> {
    let path = groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, names, path) = (parts.next()?, parts.next()?, parts.next()?);
        names.split(',').any(|name| name == controller).then_some(path)
    })?;
    let (kind, unified) = if controller.is_empty() { ("cgroup2", true) } else { ("cgroup", false) };
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.split(' ');
        let (got, _source, options) = (after.next()?, after.next()?, after.next().unwrap_or_default());
        if got != kind || !(unified || options.split(',').any(|name| name == controller)) {
            return None;
        }
        let mut before = before.split(' ').skip(3);
        let (root, point) = (unescape(before.next()?), unescape(before.next()?));
        // A container sees only part of the tree: strip the mount's root from the path.
        let inside = Path::new(path).strip_prefix(&root).ok()?;
        if inside.components().any(|part| part.as_os_str() == "..") {
            return None;
        }
        Some(Place { directory: Path::new(&point).join(inside), unified })
    })
}

/// Mount paths encode space, tab, newline and backslash as three octal digits.
fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        match rest.get(at + 1..at + 4).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                out.push(byte as char);
                rest = &rest[at + 4..];
            }
            None => {
                out.push('\\');
                rest = &rest[at + 1..];
            }
        }
    }
    out + rest
}

/// A new cgroup inside the present one.
#[derive(Debug)]
pub struct Group {
    cpu: Place,
    memory: Option<Place>,
    /// Why memory is not counted, if it is not.
    pub memory_missing: Option<String>,
    /// A sibling cgroup that holds this process, if v2 needs an empty parent, and that parent.
    waiting_room: Option<(PathBuf, PathBuf)>,
}

impl Group {
    /// Creates the cgroup in every tree with a counter.
    pub fn make() -> Result<Self, Problem> {
        let here = here()?;
        let name = format!("metier-burn-{}", std::process::id());
        let mut group =
            Self { cpu: here.cpu.clone(), memory: None, memory_missing: None, waiting_room: None };
        let mut memory = here.memory;
        if let Some(parent) =
            memory.as_ref().filter(|place| place.unified).map(|place| place.directory.clone())
            && let Err(error) = group.open_memory(&parent)
        {
            let at = parent.display();
            group.memory_missing = Some(format!(
                "the memory controller could not be passed on in {at}: {error}; it needs a group that holds \
                 no other process and may be written"
            ));
            memory = None;
        } else if memory.is_none() {
            group.memory_missing = Some("no memory controller is in reach".into());
        }
        group.cpu = inside(&here.cpu, &name)?;
        group.memory = match memory {
            Some(place) if place == here.cpu => Some(group.cpu.clone()),
            Some(place) => Some(inside(&place, &name)?),
            None => None,
        };
        Ok(group)
    }

    /// On v2, a cgroup can delegate the memory controller only if it holds no processes. So this
    /// process first moves to a sibling cgroup.
    fn open_memory(&mut self, parent: &Path) -> io::Result<()> {
        let control = parent.join("cgroup.subtree_control");
        if fs::read_to_string(&control)?.split_whitespace().any(|name| name == "memory") {
            return Ok(());
        }
        if fs::write(&control, "+memory").is_ok() {
            return Ok(());
        }
        let room = parent.join(format!("metier-burn-{}-outside", std::process::id()));
        fs::create_dir(&room)?;
        let moved = fs::write(room.join("cgroup.procs"), "0").and_then(|()| fs::write(&control, "+memory"));
        if let Err(error) = moved {
            let _ = fs::write(parent.join("cgroup.procs"), "0");
            let _ = fs::remove_dir(&room);
            return Err(error);
        }
        self.waiting_room = Some((room, parent.to_path_buf()));
        Ok(())
    }

    fn places(&self) -> impl Iterator<Item = &Place> {
        let other = self.memory.as_ref().filter(|place| **place != self.cpu);
        std::iter::once(&self.cpu).chain(other)
    }

    /// Opens the files that a process enters by writing `0`.
    pub fn doors(&self) -> Result<Vec<fs::File>, Problem> {
        self.places()
            .map(|place| {
                let path = place.directory.join("cgroup.procs");
                let door = fs::OpenOptions::new().write(true).open(&path);
                door.map_err(|e| Problem::failed(format!("open {}: {e}", path.display())))
            })
            .collect()
    }

    /// Whether the cgroup holds a process.
    pub fn is_populated(&self) -> bool {
        self.places().any(|place| {
            let text = |name| fs::read_to_string(place.directory.join(name)).unwrap_or_default();
            match place.unified {
                true => text("cgroup.events").lines().any(|line| line == "populated 1"),
                false => !text("cgroup.procs").is_empty(),
            }
        })
    }

    /// CPU time counted by the kernel: (nanoseconds, file).
    pub fn cpu_nanoseconds(&self) -> (Option<u64>, &'static str) {
        match self.cpu.unified {
            true => {
                let stat = fs::read_to_string(self.cpu.directory.join("cpu.stat")).unwrap_or_default();
                let micros =
                    stat.lines().find_map(|line| line.strip_prefix("usage_usec ")?.parse::<u64>().ok());
                (micros.map(|n| n * 1000), "cpu.stat")
            }
            false => (number_in(&self.cpu.directory.join("cpuacct.usage")), "cpuacct.usage"),
        }
    }

    /// Memory high-water mark kept by the kernel: (bytes, file).
    pub fn peak_memory_bytes(&self) -> (Option<u64>, &'static str) {
        match &self.memory {
            None => (None, ""),
            Some(place) if place.unified => (number_in(&place.directory.join("memory.peak")), "memory.peak"),
            Some(place) => {
                let file = "memory.max_usage_in_bytes";
                (number_in(&place.directory.join(file)), file)
            }
        }
    }

    /// Removes the cgroup. The kernel may need a moment after the last process.
    pub fn remove(&self) -> Result<(), Problem> {
        for place in self.places() {
            let mut left = 200;
            while let Err(error) = fs::remove_dir(&place.directory) {
                left -= 1;
                if left == 0 {
                    return Err(Problem::failed(format!("remove {}: {error}", place.directory.display())));
                }
                system::pause(5.0);
            }
        }
        if let Some((room, parent)) = &self.waiting_room {
            // In this order: the parent accepts a process only after it stops delegating
            // controllers.
            let _ = fs::write(parent.join("cgroup.subtree_control"), "-memory");
            let _ = fs::write(parent.join("cgroup.procs"), "0");
            let _ = fs::remove_dir(room);
        }
        Ok(())
    }
}

fn inside(place: &Place, name: &str) -> Result<Place, Problem> {
    let directory = place.directory.join(name);
    fs::create_dir(&directory).map_err(|e| Problem::failed(format!("make {}: {e}", directory.display())))?;
    Ok(Place { directory, unified: place.unified })
}

fn number_in(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID_GROUPS: &str = "4:memory:/a/b\n2:cpuacct:/run\n1:cpu:/\n0::/\n";
    const HYBRID_MOUNTS: &str = "\
33 31 0:30 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:3 - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

    #[test]
    fn separate_version_1_mounts_are_found_by_controller() {
        let here = resolve(HYBRID_GROUPS, HYBRID_MOUNTS).unwrap();
        assert_eq!(here.cpu.directory, Path::new("/sys/fs/cgroup/cpuacct/run"));
        assert_eq!(here.memory.unwrap().directory, Path::new("/sys/fs/cgroup/memory/a/b"));
        assert!(!here.cpu.unified);
    }

    #[test]
    fn joined_version_1_mounts_and_escaped_paths_are_found() {
        let mounts = "33 31 0:30 /box /sys/fs/c\\040g rw - cgroup cgroup rw,cpu,cpuacct\n";
        let here = resolve("2:cpu,cpuacct:/box/run\n", mounts).unwrap();
        assert_eq!(here.cpu.directory, Path::new("/sys/fs/c g/run"));
        assert_eq!(here.memory, None);
    }

    #[test]
    fn version_2_alone_counts_cpu_time() {
        let mounts = "25 1 0:22 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        let here = resolve("0::/user.slice/x.scope\n", mounts).unwrap();
        assert_eq!(here.cpu.directory, Path::new("/sys/fs/cgroup/user.slice/x.scope"));
        assert!(here.cpu.unified);
    }

    #[test]
    fn a_group_outside_of_what_is_mounted_is_refused() {
        let mounts = "25 1 0:22 /inner /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert!(resolve("0::/elsewhere\n", mounts).is_err());
        assert!(resolve("0::/../elsewhere\n", &mounts.replace("/inner", "/")).is_err());
    }
}
