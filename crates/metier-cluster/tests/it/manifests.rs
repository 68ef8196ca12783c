//! The manifests of `deploy/`: an API server accepts them, and each of their pods has no more rights
//! than it needs.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// A property that a container of a manifest lacks, and the reason.
const EXCEPTIONS: [(&str, &str, &str); 9] = [
    ("agent", "runAsNonRoot", "reads the accounts of other users' processes"),
    ("agent", "capabilities.add", "SYS_PTRACE and DAC_READ_SEARCH, for the same"),
    ("agent", "hostPath", "reads the node's /proc, /sys and groups"),
    ("agent", "hostPID, hostNetwork", "measures the node"),
    ("agent", "NetworkPolicy", "does not reach pods with the node's network"),
    ("agent", "automountServiceAccountToken", "lists pods for their names"),
    ("kepler-exporter", "container", "Kepler's own program, which is privileged"),
    ("kepler-exporter", "automountServiceAccountToken", "Kepler's exporter asks the kubelet"),
    ("estimator", "automountServiceAccountToken", "shares the pod of Kepler's exporter"),
];

fn is_exception(container: &str, property: &str) -> bool {
    EXCEPTIONS.iter().any(|(name, known, _)| *name == container && *known == property)
}

fn deploy_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

/// The files of `deploy/` with that end.
fn files(end: &str) -> Vec<PathBuf> {
    let folders = std::fs::read_dir(deploy_folder()).unwrap().map(|entry| entry.unwrap().path());
    let files = folders.flat_map(|folder| std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()));
    let mut files: Vec<PathBuf> = files.filter(|path| path.to_string_lossy().ends_with(end)).collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

fn objects(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Faults of one container of a pod template.
fn container_faults(container: &Value, pod: &Value) -> Vec<&'static str> {
    let own = &container["securityContext"];
    let of = |name: &str| if own[name].is_null() { &pod["securityContext"][name] } else { &own[name] };
    let image = container["image"].as_str().unwrap();
    let tag = image.rsplit('/').next().unwrap().split_once(':').map_or("latest", |(_, tag)| tag);
    let checks = [
        ("image", image == "IMAGE" || (tag != "latest" && !tag.is_empty())),
        ("runAsNonRoot", of("runAsNonRoot") == &json!(true)),
        ("seccompProfile", of("seccompProfile")["type"] == "RuntimeDefault"),
        ("readOnlyRootFilesystem", own["readOnlyRootFilesystem"] == true),
        ("allowPrivilegeEscalation", own["allowPrivilegeEscalation"] == false),
        ("capabilities.drop", own["capabilities"]["drop"] == json!(["ALL"])),
        ("capabilities.add", own["capabilities"]["add"].is_null()),
        ("privileged", own["privileged"] != true),
        ("requests", container["resources"]["requests"]["memory"].is_string()),
        ("limits", container["resources"]["limits"]["memory"].is_string()),
        ("automountServiceAccountToken", pod["automountServiceAccountToken"] == false),
    ];
    checks.iter().filter(|(_, is_met)| !is_met).map(|(name, _)| *name).collect()
}

/// Whether a policy of these objects selects the pods of a template.
fn has_policy(all: &[Value], labels: &Value) -> bool {
    let is_met = |wanted: &Value| {
        wanted.as_object().is_some_and(|wanted| wanted.iter().all(|(name, value)| &labels[name] == value))
    };
    all.iter().any(|it| it["kind"] == "NetworkPolicy" && is_met(&it["spec"]["podSelector"]["matchLabels"]))
}

#[test]
fn pods_have_no_more_rights_than_they_need() {
    let mut used = Vec::new();
    let mut templates = 0;
    for file in files(".yaml") {
        let all = objects(&file);
        for template in all.iter().map(|it| &it["spec"]["template"]).filter(|it| it.is_object()) {
            templates += 1;
            let pod = &template["spec"];
            let volumes = pod["volumes"].as_array().cloned().unwrap_or_default();
            let containers = pod["containers"].as_array().unwrap();
            for container in containers {
                let name = container["name"].as_str().unwrap();
                let mut faults = container_faults(container, pod);
                if volumes.iter().any(|volume| !volume["hostPath"].is_null()) {
                    faults.push("hostPath");
                }
                if pod["hostPID"] == true || pod["hostNetwork"] == true {
                    faults.push("hostPID, hostNetwork");
                }
                if !has_policy(&all, &template["metadata"]["labels"]) {
                    faults.push("NetworkPolicy");
                }
                if is_exception(name, "container") {
                    used.push((name.to_string(), "container"));
                    faults.retain(|fault| *fault == "automountServiceAccountToken");
                }
                for fault in faults {
                    assert!(is_exception(name, fault), "{}: {name}: {fault}", file.display());
                    used.push((name.to_string(), fault));
                }
            }
        }
    }
    assert!(templates >= 4, "{templates}");
    for (name, property, why) in EXCEPTIONS {
        assert!(
            used.iter().any(|it| it.0 == name && it.1 == property),
            "needless: {name}: {property}: {why}"
        );
    }
}

#[test]
fn base_images_are_pinned_by_digest() {
    for file in files("Dockerfile") {
        let text = std::fs::read_to_string(&file).unwrap();
        for base in text.lines().filter_map(|line| line.strip_prefix("FROM ")) {
            let digest = base.split_once("@sha256:").map_or("", |(_, digest)| digest);
            let digits = digest.chars().take_while(char::is_ascii_hexdigit).count();
            assert_eq!(digits, 64, "{}: {base}", file.display());
        }
    }
}

/// A namespace that is removed with the test.
struct Namespace<'a> {
    kubeconfig: &'a str,
    name: String,
}

impl Namespace<'_> {
    fn kubectl(&self, arguments: &[&str], input: &str) -> (bool, String) {
        let mut command = Command::new("kubectl");
        command.args(["--kubeconfig", self.kubeconfig]).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    }
}

impl Drop for Namespace<'_> {
    fn drop(&mut self) {
        self.kubectl(&["delete", "namespace", &self.name, "--wait=false"], "");
    }
}

#[test]
fn an_api_server_accepts_them() {
    let Ok(kubeconfig) = std::env::var("METIER_LAB_KUBECONFIG") else {
        eprintln!(
            "SKIP: manifests before an API server, because METIER_LAB_KUBECONFIG is not set (lab/lab up)"
        );
        return;
    };
    let name = format!("metier-test-manifests-{}", std::process::id());
    let namespace = Namespace { kubeconfig: &kubeconfig, name };
    let (is_made, said) = namespace.kubectl(&["create", "namespace", &namespace.name], "");
    assert!(is_made, "{said}");
    for file in files(".yaml") {
        for mut object in objects(&file) {
            if object["kind"] == "Namespace" {
                continue;
            }
            // In a namespace of the test's own; those of the manifests do not exist here.
            if !object["metadata"]["namespace"].is_null() {
                object["metadata"]["namespace"] = json!(namespace.name);
            }
            let arguments = ["--namespace", &namespace.name, "create", "--dry-run=server", "-f", "-"];
            let (is_accepted, said) = namespace.kubectl(&arguments, &object.to_string());
            // The server drops fields that it does not know without a word; kubectl names them.
            assert!(is_accepted && !said.contains("unknown field"), "{}: {said}", file.display());
        }
    }
}
