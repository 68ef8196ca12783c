//! Tests of the collector on simulated hosts: naming schemes, bounds, groups that come back, names
//! that come late.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use metier_linux::KernelRoots;
use metier_prom::{ExpositionFormat, MetricSample, ScrapeLimits, ScrapedPage, parse_page};

use super::collector::AgentCollector;
use super::config::{AgentConfig, AgentLimits};
use super::name_resolver::{ContainerName, NameRequest, NameSource, PodName, ResolvedNames};

const UID: &str = "8c1f3e5a-0d9b-4a52-9f6e-2b7d1c0e4f11";

fn id(n: u32) -> String {
    format!("{n:064x}")
}

/// A simulated host.
struct Host {
    folder: tempfile::TempDir,
}

impl Host {
    /// With these v1 controllers, each mounted apart, and v2.
    fn new(v1: &[&str]) -> Self {
        let host = Self { folder: tempfile::tempdir().unwrap() };
        let mut mounts = String::new();
        for (n, name) in v1.iter().copied().chain(["v2"]).enumerate() {
            let point = host.path(&format!("sys/fs/cgroup/{name}"));
            fs::create_dir_all(&point).unwrap();
            let kind = match name {
                "v2" => "cgroup2 cgroup2 rw".to_string(),
                name => format!("cgroup cgroup rw,{name}"),
            };
            mounts.push_str(&format!("{n} 1 0:{n} / {} rw - {kind}\n", point.display()));
        }
        host.put("proc/self/mountinfo", &mounts);
        host.put("proc/sys/kernel/hostname", "box\n");
        host.put("etc/machine-id", "3d1219c7c4c5404aaa1f6d2a48adfda4\n");
        host
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A v2 group with this CPU time.
    fn group(&self, path: &str, seconds: u64) {
        let stat = format!("usage_usec {0}\nuser_usec {0}\nsystem_usec 0\n", seconds * 1_000_000);
        self.put(&format!("sys/fs/cgroup/v2{path}/cpu.stat"), &stat);
    }

    fn config(&self) -> AgentConfig {
        let roots = KernelRoots { proc: self.path("proc"), sys: self.path("sys"), etc: self.path("etc") };
        AgentConfig { roots, sockets: Vec::new(), ..AgentConfig::default() }
    }

    fn collector(&self) -> AgentCollector {
        AgentCollector::new(&mut self.config()).unwrap()
    }
}

fn scrape(collector: &mut AgentCollector) -> ScrapedPage {
    let text = collector.render_page(ExpositionFormat::Text);
    parse_page(text.as_bytes(), ExpositionFormat::Text, &ScrapeLimits::default())
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn samples(scrape: &ScrapedPage, name: &str) -> Vec<MetricSample> {
    scrape.family(name).map(|family| family.samples.clone()).unwrap_or_default()
}

fn value(scrape: &ScrapedPage, name: &str, label: (&str, &str)) -> Option<f64> {
    samples(scrape, name)
        .iter()
        .find(|sample| sample.label(label.0) == Some(label.1))
        .map(|sample| sample.value)
}

#[test]
fn every_naming_scheme_gives_its_containers_and_pods() {
    let host = Host::new(&[]);
    let under = UID.replace('-', "_");
    let slices = "/kubepods.slice/kubepods-burstable.slice";
    let paths = [
        format!("/docker/{}", id(1)),
        format!("/system.slice/docker-{}.scope", id(2)),
        format!("{slices}/kubepods-burstable-pod{under}.slice/cri-containerd-{}.scope", id(3)),
        format!("{slices}/kubepods-burstable-pod{under}.slice/crio-{}.scope", id(4)),
        format!("/machine.slice/libpod-{}.scope", id(5)),
        format!("/kubepods/besteffort/pod0123456789abcdef0123456789abcdef/{}", id(6)),
    ];
    for (n, path) in paths.iter().enumerate() {
        host.group(path, n as u64 + 1);
    }
    host.group(&format!("{slices}/kubepods-burstable-pod{under}.slice"), 70);
    host.group("/system.slice/ssh.service", 80);
    host.group("/metier-12-3456-a1b2c3d4", 90);
    host.group("/init.scope/odd\u{fffd}:::", 99);
    fs::create_dir_all(host.path("sys/fs/cgroup/v2/docker/not-an-id/deep/er")).unwrap();
    fs::write(host.path(&format!("sys/fs/cgroup/v2/docker/{}", id(7))), "a file, no folder").unwrap();

    let page = scrape(&mut host.collector());
    let mut seconds: Vec<f64> =
        samples(&page, "metier_container_cpu_seconds_total").iter().map(|sample| sample.value).collect();
    seconds.sort_by(f64::total_cmp);
    assert_eq!(seconds, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(value(&page, "metier_pod_cpu_seconds_total", ("uid", UID)), Some(70.0));
    assert_eq!(value(&page, "metier_unit_cpu_seconds_total", ("unit", "ssh.service")), Some(80.0));
    assert_eq!(value(&page, "metier_run_cpu_seconds_total", ("run_id", "a1b2c3d4")), Some(90.0));
    let info = samples(&page, "metier_container_info");
    let of = |n: u32| info.iter().find(|sample| sample.label("id") == Some(&id(n)[..12])).cloned();
    assert!(
        info.iter().any(|sample| sample.label("runtime") == Some("containerd")
            && sample.label("qos") == Some("burstable"))
    );
    assert!(of(1).is_some());
    // The pod of a static pod's container is there too.
    assert_eq!(samples(&page, "metier_pod_cpu_seconds_total").len(), 1, "a pod without accounts shows none");
}

#[test]
fn version_1_mounted_apart_is_put_together() {
    let host = Host::new(&["cpuacct", "memory", "pids"]);
    let path = format!("docker/{}", id(9));
    host.put(&format!("sys/fs/cgroup/cpuacct/{path}/cpuacct.usage"), "2500000000\n");
    host.put(&format!("sys/fs/cgroup/memory/{path}/memory.usage_in_bytes"), "4096\n");
    host.put(&format!("sys/fs/cgroup/pids/{path}/pids.current"), "3\n");
    host.put(&format!("sys/fs/cgroup/v2/{path}/cpu.pressure"), "some avg10=0 total=500000\n");
    // In each hierarchy, a run's group lies where its program is; these places may differ.
    host.put("sys/fs/cgroup/cpuacct/metier-1-2-a1b2c3d4/cpuacct.usage", "1000000000\n");
    host.put("sys/fs/cgroup/memory/deep/down/metier-1-2-a1b2c3d4/memory.usage_in_bytes", "8192\n");
    let page = scrape(&mut host.collector());
    let of = |name: &str| value(&page, name, ("id", "000000000000"));
    assert_eq!(of("metier_container_cpu_seconds_total"), Some(2.5));
    assert_eq!(of("metier_container_memory_bytes"), Some(4096.0));
    assert_eq!(of("metier_container_threads"), Some(3.0));
    assert_eq!(of("metier_container_cpu_pressure_seconds_total"), Some(0.5));
    assert_eq!(value(&page, "metier_run_cpu_seconds_total", ("run_id", "a1b2c3d4")), Some(1.0));
    assert_eq!(value(&page, "metier_run_memory_bytes", ("run_id", "a1b2c3d4")), Some(8192.0));
    assert_eq!(samples(&page, "metier_run_memory_bytes").len(), 1);
}

#[test]
fn what_version_2_keeps_of_a_pod_that_is_over_is_not_shown() {
    let host = Host::new(&["cpuacct"]);
    let (over, alive) = ("11111111-0d9b-4a52-9f6e-2b7d1c0e4f11", UID);
    for (uid, populated) in [(over, 0), (alive, 1)] {
        let path = format!("sys/fs/cgroup/v2/kubepods/besteffort/pod{uid}");
        host.put(&format!("{path}/cgroup.events"), &format!("populated {populated}\nfrozen 0\n"));
        host.put(&format!("{path}/cpu.stat"), "usage_usec 5000000\n");
    }
    let mut collector = host.collector();
    let shown = |collector: &mut AgentCollector| -> Vec<String> {
        let page = scrape(collector);
        let all = samples(&page, "metier_pod_info");
        all.iter().filter_map(|sample| sample.label("uid").map(str::to_string)).collect()
    };
    assert_eq!(shown(&mut collector), [alive]);
    // A pod that v1 still has stays on the page, also between two of its containers. It vanishes
    // with the v1 folder.
    host.put(&format!("sys/fs/cgroup/cpuacct/kubepods/besteffort/pod{over}/cpuacct.usage"), "1\n");
    assert_eq!(shown(&mut collector).len(), 2);
    fs::remove_dir_all(host.path(&format!("sys/fs/cgroup/cpuacct/kubepods/besteffort/pod{over}"))).unwrap();
    assert_eq!(shown(&mut collector), [alive]);
}

#[test]
fn a_group_that_goes_has_no_series_and_one_that_comes_back_counts_anew() {
    let host = Host::new(&[]);
    let path = format!("/docker/{}", id(1));
    host.group(&path, 50);
    host.group(&format!("/docker/{}", id(2)), 1);
    let mut collector = host.collector();
    let count = |page: &ScrapedPage| samples(page, "metier_container_cpu_seconds_total").len();
    assert_eq!(count(&scrape(&mut collector)), 2);
    fs::rename(host.path(&format!("sys/fs/cgroup/v2{path}")), host.path("gone")).unwrap();
    assert_eq!(count(&scrape(&mut collector)), 1);
    // The path is the same but the folder is new: the open files are those of the old folder.
    host.group(&path, 60);
    assert_eq!(count(&scrape(&mut collector)), 2);
    fs::rename(host.path(&format!("sys/fs/cgroup/v2{path}")), host.path("gone-too")).unwrap();
    host.group(&path, 3);
    let values: Vec<f64> = samples(&scrape(&mut collector), "metier_container_cpu_seconds_total")
        .iter()
        .map(|s| s.value)
        .collect();
    assert!(values.contains(&3.0) && !values.contains(&60.0), "{values:?}");
}

#[test]
fn what_is_beyond_a_bound_is_left_out_and_counted() {
    let host = Host::new(&[]);
    for n in 0..30 {
        host.group(&format!("/docker/{}", id(n)), 1);
        host.group(&format!("/system.slice/s{n}.service"), 1);
    }
    let mut config = host.config();
    config.bounds = AgentLimits { containers: 10, units: 5, ..AgentLimits::default() };
    let mut collector = AgentCollector::new(&mut config).unwrap();
    for _ in 0..3 {
        let page = scrape(&mut collector);
        assert_eq!(samples(&page, "metier_container_cpu_seconds_total").len(), 10);
        assert_eq!(value(&page, "metier_agent_left_out", ("kind", "container")), Some(20.0));
        assert_eq!(value(&page, "metier_agent_left_out", ("kind", "unit")), Some(25.0));
        assert_eq!(value(&page, "metier_agent_groups", ("kind", "container")), Some(10.0));
    }
    // Groups that were left out take the place of removed ones.
    for n in 0..25 {
        let _ = fs::remove_dir_all(host.path(&format!("sys/fs/cgroup/v2/docker/{}", id(n))));
    }
    scrape(&mut collector);
    let page = scrape(&mut collector);
    assert_eq!(samples(&page, "metier_container_cpu_seconds_total").len(), 5);
    assert_eq!(value(&page, "metier_agent_left_out", ("kind", "container")), Some(0.0));

    let mut config = host.config();
    config.bounds = AgentLimits { folders: 8, ..AgentLimits::default() };
    let page = scrape(&mut AgentCollector::new(&mut config).unwrap());
    assert!(value(&page, "metier_agent_left_out", ("kind", "folder")) > Some(0.0));
}

/// Answers when the test lets it.
struct Slow {
    allowed: mpsc::Receiver<()>,
    asked: mpsc::Sender<NameRequest>,
}

impl NameSource for Slow {
    fn source_name(&self) -> &'static str {
        "slow"
    }

    fn look_up(&mut self, request: &NameRequest) -> Result<ResolvedNames, String> {
        let _ = self.asked.send(request.clone());
        self.allowed.recv().map_err(|error| error.to_string())?;
        let text = |text: &str| Some(text.to_string());
        let name = ContainerName {
            container: text("we\"b\n"),
            image: text("nginx:1"),
            pod: text("front-1"),
            namespace: text("shop"),
            run_id: None,
        };
        let pod = PodName { pod: text("front-1"), namespace: text("shop"), run_id: text("r") };
        Ok(ResolvedNames {
            containers: request.containers.iter().map(|id| (id.clone(), name.clone())).collect(),
            pods: request.pods.iter().map(|uid| (uid.clone(), pod.clone())).collect(),
        })
    }
}

#[test]
fn a_scrape_does_not_wait_for_names_and_shows_them_when_they_are_known() {
    let host = Host::new(&[]);
    let pod = format!("/kubepods/burstable/pod{UID}");
    host.group(&pod, 5);
    host.group(&format!("{pod}/{}", id(1)), 4);
    let (allow, allowed) = mpsc::channel();
    let (asked, questions) = mpsc::channel();
    let mut config = host.config();
    config.sources = vec![Box::new(Slow { allowed, asked })];
    let mut collector = AgentCollector::new(&mut config).unwrap();
    // The source hangs; scrapes go on. A series that began without its name would change it later.
    let page = scrape(&mut collector);
    assert!(page.family("metier_agent_build_info").is_some());
    assert_eq!(samples(&page, "metier_container_cpu_seconds_total").len(), 0);
    let request = questions.recv().unwrap();
    assert_eq!((request.containers, request.pods), (vec![id(1)], vec![UID.to_string()]));
    scrape(&mut collector);
    allow.send(()).unwrap();
    let page = (0..2000)
        .map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            scrape(&mut collector)
        })
        .find(|page| value(page, "metier_container_cpu_seconds_total", ("container", "we\"b\n")).is_some())
        .expect("the names come");
    let sample = &samples(&page, "metier_container_cpu_seconds_total")[0];
    assert_eq!(sample.value, 4.0);
    assert_eq!(
        (sample.label("pod"), sample.label("namespace"), sample.label("image")),
        (Some("front-1"), Some("shop"), Some("nginx:1"))
    );
    let pod = &samples(&page, "metier_pod_cpu_seconds_total")[0];
    assert_eq!(
        (pod.label("pod"), pod.label("namespace"), pod.label("run_id")),
        (Some("front-1"), Some("shop"), Some("r"))
    );
    // The name is resolved now: no further lookup.
    scrape(&mut collector);
    assert!(questions.try_recv().is_err());
}

#[test]
fn a_host_without_anything_has_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let none = |name: &str| folder.path().join(name);
    let mut config = AgentConfig {
        roots: KernelRoots { proc: none("proc"), sys: none("sys"), etc: none("etc") },
        sockets: Vec::new(),
        ..AgentConfig::default()
    };
    let mut collector = AgentCollector::new(&mut config).unwrap();
    let page = scrape(&mut collector);
    assert!(page.family("metier_agent_build_info").is_some());
    assert!(page.family("metier_container_cpu_seconds_total").is_none());
    let open = collector.render_page(ExpositionFormat::OpenMetrics);
    parse_page(open.as_bytes(), ExpositionFormat::OpenMetrics, &ScrapeLimits::default())
        .unwrap_or_else(|error| panic!("{error}\n{open}"));
}

#[test]
fn what_an_application_says_is_on_the_page_with_who_it_is() {
    use std::io::Write as _;
    let host = Host::new(&[]);
    let socket = host.path("run/live_metrics.sock");
    let mut config = AgentConfig { sockets: vec![socket.clone()], ..AgentConfig::default() };
    let mut collector = AgentCollector::new(&mut config).unwrap();
    let mut stream = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    for value in [0.010, 0.020, 0.600] {
        write!(stream, "{{\"inference_time\": {{\"value\": {value}, \"timestamp\": 1700000000}}}}\n\n")
            .unwrap();
    }
    write!(stream, "{{\"RAM_usage\": {{\"value\": 512, \"timestamp\": 1700000000}}}}\n\nnonsense\n\n")
        .unwrap();
    let page = (0..2000)
        .map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            scrape(&mut collector)
        })
        .find(|page| samples(page, "metier_app_malformed_total").iter().any(|sample| sample.value == 1.0))
        .expect("the messages arrive");
    let took = page.family("metier_app_duration_seconds").unwrap().histograms().remove(0);
    assert_eq!((took.count, took.sum.map(|sum| (sum * 1e3).round())), (Some(3.0), Some(630.0)));
    assert_eq!(took.buckets.iter().find(|(bound, _)| *bound == 0.25), Some(&(0.25, 2.0)));
    let label =
        |name: &str| took.labels.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    assert_eq!(label("metric").as_deref(), Some("inference_time"));
    assert!(label("app").is_some_and(|app| app.starts_with("metier_server")), "{:?}", took.labels);
    assert_eq!(value(&page, "metier_app_last_value", ("metric", "RAM_usage")), Some(512.0));
    drop(collector);
    assert!(!Path::new(&socket).exists(), "nothing stays");
}
