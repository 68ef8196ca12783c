//! Identification of a control group by its path: a container, a pod, a metier run or a systemd
//! unit.
//!
//! Paths are relative to a hierarchy's mount, as in `/proc/PID/cgroup`. Recognised are the names of
//! Docker, Podman, containerd and CRI-O with either cgroup driver, alone and below the kubelet's
//! pods, those of LXC and systemd-nspawn, systemd's services and scopes, and metier's. Other groups
//! have no identity.
//!
//! No engine is queried: a path contains identifiers, not user-given names.

/// Kind of a control group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CgroupKind {
    /// A container; the text is its id, or its name if the path contains that.
    Container(String),
    /// All containers of a pod; the text is the pod's uid.
    Pod(String),
    /// A metier run; the text is its short id.
    Run(String),
    /// A systemd service or scope; the text is its name.
    Unit(String),
}

/// Identity of a group, derived from its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupIdentity {
    pub kind: CgroupKind,
    /// Uid of the pod: the group's own or the enclosing one.
    pub pod: Option<String>,
    /// Quality-of-service class of that pod.
    pub quality: Option<&'static str>,
    /// Container runtime, if the path reveals it.
    pub runtime: Option<&'static str>,
}

/// Prefixes of container scopes with the systemd cgroup driver, with their runtimes.
const SCOPE_PREFIXES: [(&str, &str); 5] = [
    ("docker-", "docker"),
    ("cri-containerd-", "containerd"),
    ("crio-", "cri-o"),
    ("libpod-", "podman"),
    ("nerdctl-", "containerd"),
];

/// Longest accepted name.
const MAX_NAME_BYTES: usize = 256;

/// Identifies the group at the end of a path; `None` for groups that only contain other groups.
pub fn identify_group(path: &str) -> Option<CgroupIdentity> {
    let path = path.trim_matches('/');
    let (above, last) = path.rsplit_once('/').unwrap_or(("", path));
    if last.is_empty() || last.len() > MAX_NAME_BYTES {
        return None;
    }
    if let Some(run) = parse_run_id(last) {
        return Some(CgroupIdentity {
            kind: CgroupKind::Run(run.to_string()),
            pod: None,
            quality: None,
            runtime: None,
        });
    }
    // containerd with a mismatched cgroup driver:
    // `kubepods-burstable-podUID.slice:cri-containerd:ID`.
    if let Some((slice, rest)) = last.split_once(':') {
        let (prefix, id) = rest.split_once(':')?;
        let runtime = if prefix.contains("containerd") { Some("containerd") } else { None };
        let (pod, quality) = parse_pod(slice).unzip();
        return is_container_id(id).then(|| CgroupIdentity {
            kind: CgroupKind::Container(id.to_string()),
            pod,
            quality: quality.flatten(),
            runtime,
        });
    }
    let around = || {
        let found = above.rsplit('/').find_map(parse_pod);
        let (pod, quality) = found.unzip();
        let by_folder = || above.split('/').find_map(parse_quality_class);
        let quality = quality.flatten().or_else(|| pod.as_ref().and_then(|_| by_folder()));
        (pod, quality.or_else(|| above.contains("kubepods").then_some("guaranteed")))
    };
    if let Some((id, runtime)) = parse_container(above, last) {
        let (pod, quality) = around();
        let quality = quality.filter(|_| pod.is_some());
        return Some(CgroupIdentity { kind: CgroupKind::Container(id.to_string()), pod, quality, runtime });
    }
    if let Some((pod, quality)) = parse_pod(last) {
        let quality =
            quality.or_else(|| above.split('/').find_map(parse_quality_class)).or(Some("guaranteed"));
        return Some(CgroupIdentity {
            kind: CgroupKind::Pod(pod.clone()),
            pod: Some(pod),
            quality,
            runtime: None,
        });
    }
    let is_unit = last.ends_with(".service") || last.ends_with(".scope");
    // Monitor processes of containers are not a workload.
    let is_watcher = last.contains("-conmon-");
    (is_unit && !is_watcher).then(|| CgroupIdentity {
        kind: CgroupKind::Unit(last.to_string()),
        pod: None,
        quality: None,
        runtime: None,
    })
}

/// Identifies the owner of a process in the group at `path`: the innermost container, run or pod,
/// else a unit.
pub fn identify_enclosing(path: &str) -> Option<CgroupIdentity> {
    let path = path.trim_end_matches('/');
    let ends = path.match_indices('/').map(|(at, _)| at).filter(|at| *at > 0).chain([path.len()]);
    let mut found: Vec<CgroupIdentity> = ends.filter_map(|end| identify_group(&path[..end])).collect();
    let is_unit = |named: &CgroupIdentity| matches!(named.kind, CgroupKind::Unit(_));
    match found.iter().rposition(|named| !is_unit(named)) {
        Some(at) => Some(found.swap_remove(at)),
        None => found.pop(),
    }
}

/// The run in `metier-PID-START-RUN`, as a folder or a scope; a slice has underscores instead.
fn parse_run_id(last: &str) -> Option<&str> {
    let mut parts = match last.strip_suffix(".slice") {
        Some(slice) => slice.strip_prefix("metier_")?.splitn(3, '_'),
        None => last.strip_prefix("metier-")?.trim_end_matches(".scope").splitn(3, '-'),
    };
    parts.next()?.parse::<u32>().ok()?;
    parts.next()?.parse::<u64>().ok()?;
    parts.next().filter(|run| run.len() == 8 && run.bytes().all(|b| b.is_ascii_alphanumeric()))
}

/// Whether the text is a container id.
fn is_container_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

fn parse_container<'a>(above: &str, last: &'a str) -> Option<(&'a str, Option<&'static str>)> {
    let parent = above.rsplit('/').next().unwrap_or_default();
    if is_container_id(last) {
        let runtime = match parent {
            "docker" => Some("docker"),
            "libpod_parent" => Some("podman"),
            _ => None,
        };
        return Some((last, runtime));
    }
    let scope = last.strip_suffix(".scope").unwrap_or(last);
    for (prefix, runtime) in SCOPE_PREFIXES {
        if let Some(id) = scope.strip_prefix(prefix).filter(|id| is_container_id(id)) {
            return Some((id, Some(runtime)));
        }
    }
    if let Some(name) = last.strip_prefix("lxc.payload.").filter(|name| !name.is_empty()) {
        return Some((name, Some("lxc")));
    }
    if parent == "lxc" && !last.starts_with("lxc") {
        return Some((last, Some("lxc")));
    }
    let machine = scope.strip_prefix("machine-").filter(|name| last != scope && !name.is_empty())?;
    (parent == "machine.slice").then_some((machine, Some("nspawn")))
}

/// A pod's uid, and its class if the name contains it.
fn parse_pod(name: &str) -> Option<(String, Option<&'static str>)> {
    if let Some(uid) = name.strip_prefix("pod").filter(|uid| is_pod_uid(uid)) {
        return Some((uid.to_string(), None));
    }
    // kubepods-burstable-podUID.slice, with the uid's dashes as underscores; a prefix may precede
    // it.
    let name = name.strip_suffix(".slice")?;
    let (before, uid) = name.rsplit_once("-pod")?;
    let at = before.find("kubepods")?;
    let uid = uid.replace('_', "-");
    let quality = match &before[at..] {
        "kubepods" => Some("guaranteed"),
        rest => parse_quality_class(rest.strip_prefix("kubepods-")?),
    };
    is_pod_uid(&uid).then_some((uid, quality))
}

fn parse_quality_class(folder: &str) -> Option<&'static str> {
    ["burstable", "besteffort"].into_iter().find(|class| *class == folder)
}

/// Whether the text is a pod uid: of an API object, or the digest that the kubelet assigns to a
/// static pod.
fn is_pod_uid(text: &str) -> bool {
    let is_hex = |b: u8| b.is_ascii_hexdigit();
    let is_object = text.len() == 36
        && text.bytes().enumerate().all(|(at, b)| match at {
            8 | 13 | 18 | 23 => b == b'-',
            _ => is_hex(b),
        });
    is_object || (text.len() == 32 && text.bytes().all(is_hex))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: &str = "adbbece5a3fa84b94fa10e9e1cb18fdf04bdf2ceaf0c1f6325e964e017452fea";
    const UID: &str = "8c1f3e5a-0d9b-4a52-9f6e-2b7d1c0e4f11";

    #[test]
    fn containers_are_known_by_every_runtimes_path() {
        let under = UID.replace('-', "_");
        let pod = Some(UID);
        let burstable = Some("burstable");
        for (path, pod, quality, runtime) in [
            (format!("/docker/{ID}"), None, None, Some("docker")),
            (format!("/system.slice/docker-{ID}.scope"), None, None, Some("docker")),
            (format!("/metier_12_3456_a1b2c3d4.slice/docker-{ID}.scope"), None, None, Some("docker")),
            (format!("/my/parent/{ID}"), None, None, None),
            (format!("/actions_job/{ID}"), None, None, None),
            (format!("/kubepods/burstable/pod{UID}/{ID}"), pod, burstable, None),
            (format!("/kubepods/pod{UID}/{ID}"), pod, Some("guaranteed"), None),
            (format!("/kubepods/besteffort/pod{UID}/{ID}"), pod, Some("besteffort"), None),
            (
                format!(
                    "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{under}.slice/cri-containerd-{ID}.scope"
                ),
                pod,
                burstable,
                Some("containerd"),
            ),
            (
                format!("/kubepods.slice/kubepods-pod{under}.slice/crio-{ID}.scope"),
                pod,
                Some("guaranteed"),
                Some("cri-o"),
            ),
            (
                format!(
                    "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod{under}.slice/cri-containerd-{ID}.scope"
                ),
                pod,
                Some("besteffort"),
                Some("containerd"),
            ),
            (
                format!(
                    "/system.slice/containerd.service/kubepods-burstable-pod{under}.slice:cri-containerd:{ID}"
                ),
                pod,
                burstable,
                Some("containerd"),
            ),
            (
                format!(
                    "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{under}.slice/docker-{ID}.scope"
                ),
                pod,
                Some("besteffort"),
                Some("docker"),
            ),
            (format!("/machine.slice/libpod-{ID}.scope"), None, None, Some("podman")),
            (
                format!("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope"),
                None,
                None,
                Some("podman"),
            ),
            (format!("/libpod_parent/libpod-{ID}"), None, None, Some("podman")),
        ] {
            let named = identify_group(&path).unwrap_or_else(|| panic!("{path}"));
            assert_eq!(named.kind, CgroupKind::Container(ID.into()), "{path}");
            assert_eq!(
                (named.pod.as_deref(), named.quality, named.runtime),
                (pod, quality, runtime),
                "{path}"
            );
        }
        for (path, name, runtime) in [
            ("/lxc/web", "web", "lxc"),
            ("/lxc.payload.db", "db", "lxc"),
            ("/machine.slice/machine-debian.scope", "debian", "nspawn"),
        ] {
            let named = identify_group(path).unwrap();
            assert_eq!((named.kind, named.runtime), (CgroupKind::Container(name.into()), Some(runtime)));
        }
    }

    #[test]
    fn pods_runs_and_units_are_known() {
        let under = UID.replace('-', "_");
        for (path, quality) in [
            (format!("/kubepods/burstable/pod{UID}"), "burstable"),
            (format!("/kubepods/pod{UID}"), "guaranteed"),
            (
                format!("/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{under}.slice"),
                "besteffort",
            ),
            (format!("/kubepods.slice/kubepods-pod{under}.slice/"), "guaranteed"),
        ] {
            let named = identify_group(&path).unwrap();
            assert_eq!((named.kind, named.quality), (CgroupKind::Pod(UID.into()), Some(quality)), "{path}");
        }
        let from_file = identify_group("/kubepods/besteffort/pod0123456789abcdef0123456789abcdef").unwrap();
        assert_eq!(from_file.kind, CgroupKind::Pod("0123456789abcdef0123456789abcdef".into()));
        assert_eq!(
            identify_group("/a/metier-12-3456-a1b2c3d4").unwrap().kind,
            CgroupKind::Run("a1b2c3d4".into())
        );
        assert_eq!(
            identify_group("/a/metier-12-3456-a1b2c3d4.scope").unwrap().kind,
            CgroupKind::Run("a1b2c3d4".into())
        );
        assert_eq!(
            identify_group("/metier_12_3456_a1b2c3d4.slice").unwrap().kind,
            CgroupKind::Run("a1b2c3d4".into())
        );
        assert_eq!(
            identify_group("/system.slice/ssh.service").unwrap().kind,
            CgroupKind::Unit("ssh.service".into())
        );
    }

    #[test]
    fn what_only_holds_others_or_looks_alike_is_nobody() {
        let conmon = format!("/machine.slice/libpod-conmon-{ID}.scope");
        let crio = format!("/system.slice/crio-conmon-{ID}.scope");
        let long = format!("/docker/{ID}00");
        let colons = format!("/x/a:b:{}", &ID[1..]);
        for path in [
            "",
            "/",
            "/docker",
            "/kubepods",
            "/kubepods/burstable",
            "/kubepods.slice/kubepods-burstable.slice",
            "/system.slice",
            "/kubepods/podless",
            "/metier-12-x-a1b2c3d4",
            "/metier-12-34-short",
            "/x/a:b",
            &conmon,
            &crio,
            &long,
            &colons,
        ] {
            assert_eq!(identify_group(path), None, "{path}");
        }
    }

    #[test]
    fn a_process_belongs_to_what_is_nearest_around_it() {
        let kind = |path: &str| identify_enclosing(path).map(|named| named.kind);
        assert_eq!(kind(&format!("/docker/{ID}/init.scope")), Some(CgroupKind::Container(ID.into())));
        assert_eq!(
            kind(&format!("/machine.slice/libpod-{ID}.scope/container")),
            Some(CgroupKind::Container(ID.into()))
        );
        assert_eq!(kind("/user.slice/session-1.scope"), Some(CgroupKind::Unit("session-1.scope".into())));
        assert_eq!(
            kind(&format!("/docker/{ID}/metier-1-2-a1b2c3d4/x")),
            Some(CgroupKind::Run("a1b2c3d4".into()))
        );
        assert_eq!(kind("/"), None);
        assert_eq!(kind(""), None);
    }

    proptest! {
        #[test]
        fn no_path_is_too_strange(path in "(/?(pod|docker-|kubepods|libpod-|metier-1-2-|[a-zé:._-]{0,8}|[0-9a-f]{64}|[0-9a-f-]{36})(.slice|.scope)?){0,5}") {
            let _ = (identify_group(&path), identify_enclosing(&path));
        }
    }
}
