//! The container engine: its socket, its kind and version, and its error messages.

use std::path::{Path, PathBuf};

use bollard::Docker;
use bollard::errors::Error as BollardError;
use metier_types::MissingReason;

/// Time limit of a request; creating a container from a large image on a slow disk takes long.
const TIMEOUT_S: u64 = 120;
/// Client time limit for calls that last as long as the container.
const CONTAINER_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10 * 365 * 86_400);

/// An engine on this host.
#[derive(Clone)]
pub(crate) struct ContainerEngine {
    pub docker: Docker,
    /// Name and version, for example `Docker Engine 20.10.24`.
    pub name: String,
    /// How it creates control groups.
    pub grouping: CgroupStrategy,
}

/// How an engine creates the control groups of its containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CgroupStrategy {
    /// Directly, below the given path.
    Folders,
    /// Through systemd, inside the given slice.
    Slices,
    /// With its own monitor beside each container in the given parent: Podman.
    Monitored,
}

impl ContainerEngine {
    /// Connects to the engine and determines its kind and version.
    pub async fn connect(socket: &Path) -> Result<Self, String> {
        let path = socket.to_string_lossy();
        let failure = |error: BollardError| unreachable_reason(socket, &error_text(&error));
        let docker =
            Docker::connect_with_unix(&path, TIMEOUT_S, bollard::API_DEFAULT_VERSION).map_err(failure)?;
        let docker = docker.negotiate_version().await.map_err(failure)?;
        let version = docker.version().await.map_err(failure)?;
        let info = docker.info().await.map_err(failure)?;
        let of = version.components.iter().flatten().map(|part| part.name.clone());
        let is_podman = of.into_iter().any(|name| name.to_lowercase().contains("podman"));
        let name = if is_podman { "Podman" } else { "Docker Engine" };
        let number = version.version.unwrap_or_default();
        let driver = info.cgroup_driver.map(|driver| driver.to_string()).unwrap_or_default();
        let grouping = match driver.as_str() {
            _ if is_podman => CgroupStrategy::Monitored,
            "systemd" => CgroupStrategy::Slices,
            _ => CgroupStrategy::Folders,
        };
        Ok(Self { docker, name: format!("{name} {number}").trim_end().to_string(), grouping })
    }

    /// A client for calls that take as long as the container runs.
    pub fn without_timeout(&self) -> Docker {
        self.docker.clone().with_timeout(CONTAINER_TIMEOUT)
    }
}

/// The engine's socket: as requested, from `DOCKER_HOST` or `CONTAINER_HOST`, or at one of the
/// usual places.
pub(crate) fn find_socket(asked: Option<&str>) -> Result<PathBuf, String> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let named = asked
        .map(|value| ("the engine", value.to_string()))
        .or_else(|| Some(("DOCKER_HOST", variable("DOCKER_HOST")?)))
        .or_else(|| Some(("CONTAINER_HOST", variable("CONTAINER_HOST")?)));
    if let Some((setting, value)) = named {
        let path = value.strip_prefix("unix://").unwrap_or(&value);
        if !path.starts_with('/') {
            return Err(format!(
                "{setting} is {value}; want unix:///path of a socket on this host, since only here can a container be measured"
            ));
        }
        return match Path::new(path).exists() {
            true => Ok(path.into()),
            false => Err(unreachable_reason(Path::new(path), "there is no such socket")),
        };
    }
    let places = default_sockets();
    places.iter().find(|place| place.exists()).cloned().ok_or_else(|| {
        let all: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
        let all = all.join(", ");
        format!(
            "no container engine listens at {all}; start Docker or Podman, or set DOCKER_HOST=unix:///path"
        )
    })
}

/// Default socket paths of engines.
fn default_sockets() -> Vec<PathBuf> {
    let mut places = vec![PathBuf::from("/var/run/docker.sock"), "/run/podman/podman.sock".into()];
    if let Some(own) = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from) {
        places.push(own.join("docker.sock"));
        places.push(own.join("podman/podman.sock"));
    }
    places
}

fn unreachable_reason(socket: &Path, reason: &str) -> String {
    format!(
        "the container engine at {} cannot be reached ({reason}); is it running, and may this user open its socket?",
        socket.display()
    )
}

/// The engine's own message, without the text that the client adds.
pub(crate) fn error_text(error: &BollardError) -> String {
    match error {
        BollardError::DockerResponseServerError { message, .. } => message.trim().to_string(),
        BollardError::DockerStreamError { error } => error.trim().to_string(),
        other => {
            let mut words = other.to_string();
            let mut source = std::error::Error::source(other);
            while let Some(inner) = source {
                let inner_words = inner.to_string();
                if !words.contains(&inner_words) {
                    words = format!("{words}: {inner_words}");
                }
                source = inner.source();
            }
            words
        }
    }
}

/// Whether the engine reports that the object does not exist.
pub(crate) fn is_not_found(error: &BollardError) -> bool {
    matches!(error, BollardError::DockerResponseServerError { status_code: 404, .. })
}

/// Runs an engine call to its end, for synchronous callers.
pub(crate) fn block_on<T>(work: impl std::future::Future<Output = T>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("no asynchronous runtime for the engine's API ({error})"))?;
    Ok(runtime.block_on(work))
}

/// The check of `metier doctor` for containers.
pub fn check_engine() -> Result<String, MissingReason> {
    let fix = "start Docker or Podman, or set DOCKER_HOST=unix:///path/of/its/socket; only --image needs one";
    let missing = |reason: String| MissingReason::with_fix(reason, fix);
    let socket = find_socket(None).map_err(missing)?;
    let engine = block_on(ContainerEngine::connect(&socket)).and_then(|engine| engine).map_err(missing)?;
    // SAFETY: takes no arguments and cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    let how = match (is_root, engine.grouping) {
        (true, CgroupStrategy::Slices) => {
            "containers get a scope inside metier's systemd slice: exact end counters"
        }
        (true, CgroupStrategy::Folders) => {
            "containers get a control group inside metier's: exact end counters"
        }
        (true, CgroupStrategy::Monitored) => {
            "it puts a monitor beside each container, so end counters are those of its own control group as it empties"
        }
        (false, _) => {
            "metier may not create its control groups, so end counters are those of a container's own group as it empties"
        }
    };
    Ok(format!("{} at {}; {how}", engine.name, socket.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_elsewhere_or_nowhere_is_refused_with_what_was_asked_for() {
        let elsewhere = find_socket(Some("tcp://example.org:2375")).unwrap_err();
        assert!(
            elsewhere.contains("tcp://example.org:2375") && elsewhere.contains("unix:///"),
            "{elsewhere}"
        );
        let nowhere = find_socket(Some("unix:///no/such.sock")).unwrap_err();
        assert!(nowhere.contains("/no/such.sock"), "{nowhere}");
    }
}
