//! Mount points of the control group file systems, and the groups of a process in each.
//!
//! Read from `/proc/self/mountinfo` and `/proc/self/cgroup` only, without assumptions about mount
//! names: `cpu` and `cpuacct` may be mounted apart or together, and version 2 may be mounted
//! anywhere.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Version 1 controllers with accounting.
const CONTROLLERS: [&str; 5] = ["cpu", "cpuacct", "memory", "pids", "blkio"];

/// The control groups of a process in each hierarchy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CgroupMembership {
    /// Folder of its version 2 group.
    pub v2: Option<PathBuf>,
    /// Mount point of version 2.
    pub v2_mount: Option<PathBuf>,
    /// Folder of its version 1 group by controller.
    pub v1: BTreeMap<String, PathBuf>,
}

impl CgroupMembership {
    /// Reads the groups of a process (`self` or a number) below a `/proc`.
    pub fn read(proc: &Path, process: &str) -> Self {
        let read = |name: &str| std::fs::read_to_string(proc.join(process).join(name)).unwrap_or_default();
        // These mounts are of this process's namespace; the other process may have different ones.
        let mounts = std::fs::read_to_string(proc.join("self/mountinfo")).unwrap_or_default();
        Self::parse(&mounts, &read("cgroup"))
    }

    /// Parses the texts of the two files.
    pub fn parse(mountinfo: &str, cgroup: &str) -> Self {
        let mut place = Self::default();
        let mounts: Vec<CgroupMount> = mountinfo.lines().filter_map(CgroupMount::parse).collect();
        for line in cgroup.lines() {
            let mut fields = line.splitn(3, ':');
            let (Some(number), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            if number == "0" && controllers.is_empty() {
                if let Some(mount) = mounts.iter().find(|m| m.version == 2) {
                    place.v2 = Some(mount.group_folder(path));
                    place.v2_mount = Some(mount.point.clone());
                }
                continue;
            }
            for controller in controllers.split(',').filter(|c| !c.starts_with("name=")) {
                let has = |m: &&CgroupMount| m.version == 1 && m.controllers.iter().any(|c| c == controller);
                if let Some(mount) = mounts.iter().find(has) {
                    place.v1.insert(controller.to_string(), mount.group_folder(path));
                }
            }
        }
        place
    }

    /// The root of every hierarchy, preferring mounts below `sys`. A container that observes its
    /// host has the host's mounts there, in addition to its own.
    pub fn hierarchy_roots(proc: &Path, sys: &Path) -> Self {
        let text = std::fs::read_to_string(proc.join("self/mountinfo")).unwrap_or_default();
        let mut mounts: Vec<CgroupMount> = text.lines().filter_map(CgroupMount::parse).collect();
        if mounts.iter().any(|mount| mount.point.starts_with(sys)) {
            mounts.retain(|mount| mount.point.starts_with(sys));
        }
        let mut place = Self::default();
        for mount in mounts {
            if mount.version == 2 {
                place.v2_mount.get_or_insert_with(|| mount.point.clone());
                place.v2.get_or_insert(mount.point);
                continue;
            }
            for controller in CONTROLLERS {
                if mount.controllers.iter().any(|known| known == controller) {
                    place.v1.entry(controller.to_string()).or_insert_with(|| mount.point.clone());
                }
            }
        }
        place
    }

    /// Whether version 1 accounts CPU time or memory.
    pub fn uses_v1_accounting(&self) -> bool {
        self.v1.contains_key("cpuacct") || self.v1.contains_key("memory")
    }
}

/// One control group mount.
#[derive(Debug, Clone)]
pub struct CgroupMount {
    pub version: u8,
    root: String,
    pub point: PathBuf,
    controllers: Vec<String>,
}

/// All hierarchies from their roots; `None` if one of them is mounted from a subfolder only.
pub fn full_hierarchies(proc: &Path) -> Option<Vec<CgroupMount>> {
    let text = std::fs::read_to_string(proc.join("self/mountinfo")).ok()?;
    let mut mounts: Vec<CgroupMount> = text.lines().filter_map(CgroupMount::parse).collect();
    // The same hierarchy may be mounted twice.
    let mut seen = Vec::new();
    mounts.retain(|mount| {
        let key = (mount.version, mount.controllers.clone(), mount.root.clone());
        let is_new = !seen.contains(&key);
        seen.push(key);
        is_new
    });
    (!mounts.is_empty() && mounts.iter().all(|mount| mount.root == "/")).then_some(mounts)
}

impl CgroupMount {
    /// Whether this is the version 1 hierarchy of a controller.
    pub fn has_controller(&self, controller: &str) -> bool {
        self.version == 1 && self.controllers.iter().any(|text| text == controller)
    }

    /// Parses a line such as
    /// `31 23 0:26 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory`.
    fn parse(line: &str) -> Option<Self> {
        let (left, right) = line.split_once(" - ")?;
        let left: Vec<&str> = left.split(' ').collect();
        let mut right = right.split(' ');
        let version = match right.next()? {
            "cgroup2" => 2,
            "cgroup" => 1,
            _ => return None,
        };
        let options = right.nth(1).unwrap_or_default();
        Some(Self {
            version,
            root: unescape(left.get(3)?),
            point: unescape(left.get(4)?).into(),
            controllers: options.split(',').map(str::to_string).collect(),
        })
    }

    /// Folder of a group path under this mount; a mount may show only a part of the tree.
    fn group_folder(&self, path: &str) -> PathBuf {
        let inside = if self.root == "/" {
            Some(path)
        } else {
            path.strip_prefix(&self.root).filter(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        match inside.map(|p| p.trim_start_matches('/')) {
            // A path with `..` is outside this cgroup namespace; the mount's root is the closest
            // visible group.
            Some(rest) if !rest.is_empty() && !rest.split('/').any(|part| part == "..") => {
                self.point.join(rest)
            }
            _ => self.point.clone(),
        }
    }
}

/// Decodes mountinfo's octal escapes for blanks and similar characters.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let code = (byte == b'\\' && tail.len() >= 3)
            .then(|| {
                std::str::from_utf8(&tail[..3]).ok().and_then(|digits| u8::from_str_radix(digits, 8).ok())
            })
            .flatten();
        match code {
            Some(code) => {
                bytes.push(code);
                rest = &tail[3..];
            }
            None => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
21 1 0:20 / /sys rw - sysfs sysfs rw
30 21 0:25 / /sys/fs/cgroup rw - tmpfs tmpfs rw
31 30 0:26 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
32 30 0:27 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct
33 30 0:28 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
34 30 0:29 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate
";

    #[test]
    fn controllers_mounted_apart_are_found_one_by_one() {
        let place = CgroupMembership::parse(HYBRID, "4:memory:/box/a\n2:cpuacct:/\n1:cpu:/\n0::/\n");
        assert_eq!(place.v1["memory"], Path::new("/sys/fs/cgroup/memory/box/a"));
        assert_eq!(place.v1["cpuacct"], Path::new("/sys/fs/cgroup/cpuacct"));
        assert_eq!(place.v2.as_deref(), Some(Path::new("/sys/fs/cgroup/unified")));
        assert!(place.uses_v1_accounting());
    }

    #[test]
    fn controllers_mounted_together_share_a_folder() {
        let mounts = "31 30 0:26 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";
        let place = CgroupMembership::parse(mounts, "3:cpu,cpuacct:/user.slice\n");
        assert_eq!(place.v1["cpu"], place.v1["cpuacct"]);
        assert_eq!(place.v1["cpu"], Path::new("/sys/fs/cgroup/cpu,cpuacct/user.slice"));
    }

    #[test]
    fn pure_version_2_has_one_folder() {
        let mounts = "30 21 0:25 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let place = CgroupMembership::parse(mounts, "0::/user.slice/user-1000.slice/session-1.scope\n");
        assert_eq!(
            place.v2.as_deref(),
            Some(Path::new("/sys/fs/cgroup/user.slice/user-1000.slice/session-1.scope"))
        );
        assert!(!place.uses_v1_accounting());
    }

    #[test]
    fn a_container_that_sees_a_part_of_the_tree_stays_inside_it() {
        let mounts = "30 21 0:25 /docker/abc /sys/fs/cgroup/memory\\040x rw - cgroup cgroup rw,memory\n";
        let inside = CgroupMembership::parse(mounts, "4:memory:/docker/abc/job\n");
        assert_eq!(inside.v1["memory"], Path::new("/sys/fs/cgroup/memory x/job"));
        let outside = CgroupMembership::parse(mounts, "4:memory:/docker/abcdef\n");
        assert_eq!(outside.v1["memory"], Path::new("/sys/fs/cgroup/memory x"));
        let above = CgroupMembership::parse("30 21 0:25 / /cg rw - cgroup2 cgroup2 rw\n", "0::/../../x\n");
        assert_eq!(above.v2.as_deref(), Some(Path::new("/cg")));
    }

    #[test]
    fn the_top_is_that_of_the_host_if_it_is_mounted_apart() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("self")).unwrap();
        let own = "30 21 0:25 /kubepods/x /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let host = "40 21 0:25 / /host/sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
            41 21 0:26 / /host/sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";
        std::fs::write(folder.path().join("self/mountinfo"), format!("{own}{host}")).unwrap();
        let top = CgroupMembership::hierarchy_roots(folder.path(), Path::new("/host/sys"));
        assert_eq!(top.v1["memory"], Path::new("/host/sys/fs/cgroup/memory"));
        assert_eq!(top.v1["cpu"], top.v1["cpuacct"]);
        let near = CgroupMembership::hierarchy_roots(folder.path(), Path::new("/elsewhere"));
        assert_eq!(near.v1["memory"], Path::new("/sys/fs/cgroup/memory"));
    }

    #[test]
    fn nonsense_is_no_place() {
        assert_eq!(
            CgroupMembership::parse("x\n - \n1 2 - cgroup\n", "1\n2:3\n:::\n"),
            CgroupMembership::default()
        );
    }
}
