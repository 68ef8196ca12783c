//! Names from a container engine with Docker's API (Docker, Podman), over its unix socket.
//!
//! One request names up to fifty containers. It is plain HTTP/1.0, so the response ends with the
//! connection. Time and size are bounded.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::name_resolver::{ContainerName, NameRequest, NameSource, PodName, ResolvedNames};

/// Containers per request.
const MAX_CONTAINERS_PER_REQUEST: usize = 50;
/// Time limit of the engine.
const ENGINE_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_RESPONSE_BYTES: u64 = 8 << 20;
/// Label of containers that metier started for a run.
const RUN_LABEL: &str = "metier.run";

#[derive(Debug)]
pub struct EngineNameSource {
    socket: PathBuf,
}

impl EngineNameSource {
    /// The engine at a socket.
    pub fn at_socket(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into() }
    }

    /// The socket in `DOCKER_HOST`, else a default socket. An engine on another host does not run
    /// this node's containers.
    pub fn discover() -> Option<PathBuf> {
        let host = std::env::var("DOCKER_HOST").unwrap_or_default();
        host.strip_prefix("unix://").map(PathBuf::from).or_else(Self::find_default_socket)
    }

    /// The first default socket that exists.
    fn find_default_socket() -> Option<PathBuf> {
        ["/var/run/docker.sock", "/run/docker.sock", "/run/podman/podman.sock"]
            .into_iter()
            .map(PathBuf::from)
            .find(|path| path.exists())
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct EngineContainer {
    id: String,
    #[serde(default)]
    names: Option<Vec<String>>,
    #[serde(default)]
    image: Option<String>,
    #[serde(default)]
    labels: Option<std::collections::HashMap<String, String>>,
}

impl NameSource for EngineNameSource {
    fn source_name(&self) -> &'static str {
        "engine"
    }

    fn look_up(&mut self, request: &NameRequest) -> Result<ResolvedNames, String> {
        let mut found = ResolvedNames::default();
        for ids in request.containers.chunks(MAX_CONTAINERS_PER_REQUEST) {
            let filters = serde_json::json!({ "id": ids }).to_string();
            // Also ended ones: what an application sent is shown after its container's end.
            let query = form_urlencoded::Serializer::new(String::new())
                .append_pair("all", "true")
                .append_pair("filters", &filters)
                .finish();
            let body = http_get(&self.socket, &format!("/containers/json?{query}"))
                .map_err(|error| format!("{}: {error}", self.socket.display()))?;
            let listed: Vec<EngineContainer> = serde_json::from_slice(&body)
                .map_err(|error| format!("{}: not a list of containers: {error}", self.socket.display()))?;
            listed.into_iter().for_each(|container| add_container_names(container, &mut found));
        }
        Ok(found)
    }
}

fn add_container_names(engine_container: EngineContainer, found: &mut ResolvedNames) {
    let mut labels = engine_container.labels.unwrap_or_default();
    let mut label = |name: &str| labels.remove(name).filter(|text| !text.is_empty());
    let (pod, namespace) = (label("io.kubernetes.pod.name"), label("io.kubernetes.pod.namespace"));
    let run_id = label(RUN_LABEL);
    if let Some(uid) = label("io.kubernetes.pod.uid") {
        let name = PodName { pod: pod.clone(), namespace: namespace.clone(), run_id: run_id.clone() };
        found.pods.push((uid, name));
    }
    let given = engine_container.names.unwrap_or_default().into_iter().next();
    let given = given.map(|name| name.trim_start_matches('/').to_string());
    let container = label("io.kubernetes.container.name").or(given);
    found.containers.push((
        engine_container.id,
        ContainerName { container, image: engine_container.image, pod, namespace, run_id },
    ));
}

/// The body of a response with status 200.
fn http_get(socket: &Path, target: &str) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| error.to_string();
    let mut stream = UnixStream::connect(socket).map_err(failed)?;
    stream.set_read_timeout(Some(ENGINE_TIMEOUT)).map_err(failed)?;
    stream.set_write_timeout(Some(ENGINE_TIMEOUT)).map_err(failed)?;
    let request = format!("GET {target} HTTP/1.0\r\nHost: localhost\r\nAccept: application/json\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(failed)?;
    let mut answer = Vec::new();
    stream.take(MAX_RESPONSE_BYTES).read_to_end(&mut answer).map_err(failed)?;
    let end = answer
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .ok_or_else(|| "the answer is not HTTP".to_string())?;
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let status = head.split_ascii_whitespace().nth(1).unwrap_or_default();
    if status != "200" {
        return Err(format!("status {status}"));
    }
    Ok(answer.split_off(end + 4))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    fn answering(
        answer: &'static [u8],
    ) -> (tempfile::TempDir, std::thread::JoinHandle<String>, EngineNameSource) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("engine.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            let got = stream.read(&mut request).unwrap();
            stream.write_all(answer).unwrap();
            String::from_utf8_lossy(&request[..got]).into_owned()
        });
        (folder, server, EngineNameSource::at_socket(path))
    }

    fn name_request() -> NameRequest {
        NameRequest { containers: vec!["abc".into(), "def".into()], pods: vec![] }
    }

    #[test]
    fn names_images_and_pods_are_taken_from_the_list() {
        let answer = br#"HTTP/1.0 200 OK
Content-Type: application/json

[{"Id":"abc","Names":["/web"],"Image":"nginx:1","Labels":{"metier.run":"r1"}},
 {"Id":"def","Names":["/k8s_app_x"],"Image":"app:2","Labels":{"io.kubernetes.container.name":"app","io.kubernetes.pod.name":"p","io.kubernetes.pod.namespace":"n","io.kubernetes.pod.uid":"u"}},
 {"Id":"odd","Names":null,"Labels":null}]"#;
        let answer: &'static [u8] = Box::leak(
            String::from_utf8_lossy(answer).replace("\n\n", "\r\n\r\n").into_bytes().into_boxed_slice(),
        );
        let (_folder, server, mut engine) = answering(answer);
        let found = engine.look_up(&name_request()).unwrap();
        let request = server.join().unwrap();
        assert!(
            request.starts_with(
                "GET /containers/json?all=true&filters=%7B%22id%22%3A%5B%22abc%22%2C%22def%22%5D%7D HTTP/1.0\r\n"
            ),
            "{request}"
        );
        let text = |text: &str| Some(text.to_string());
        let web = ContainerName {
            container: text("web"),
            image: text("nginx:1"),
            run_id: text("r1"),
            ..Default::default()
        };
        let app = ContainerName {
            container: text("app"),
            image: text("app:2"),
            pod: text("p"),
            namespace: text("n"),
            run_id: None,
        };
        assert_eq!(found.containers[..2], [("abc".into(), web), ("def".into(), app)]);
        assert_eq!(
            found.pods,
            [("u".into(), PodName { pod: text("p"), namespace: text("n"), run_id: None })]
        );
    }

    #[test]
    fn an_engine_that_is_not_there_or_talks_nonsense_is_an_error_with_its_socket() {
        let mut gone = EngineNameSource::at_socket("/nowhere/engine.sock");
        assert!(gone.look_up(&name_request()).unwrap_err().contains("/nowhere/engine.sock"));
        for answer in
            [&b"HTTP/1.0 500 Oh\r\n\r\n{}"[..], b"HTTP/1.0 200 OK\r\n\r\n{\"a\":1}", b"SSH-2.0", b""]
        {
            let (_folder, server, mut engine) = answering(answer);
            let error = engine.look_up(&name_request()).unwrap_err();
            assert!(error.contains("engine.sock"), "{error}");
            server.join().unwrap();
        }
    }
}
