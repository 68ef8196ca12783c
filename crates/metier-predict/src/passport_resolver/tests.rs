//! Tests of the lookup order.

use metier_place::{KubernetesNode, MissingFact, PrometheusNode};

use super::*;

/// A measured passport of a device with this id and host name.
fn measured(id: &str, host: &str) -> Passport {
    let mut passport = PassportCatalog::default().find_passport("raspberry-pi-5").unwrap().clone();
    passport.origin = PassportOrigin::Measured;
    passport.device.name = host.to_string();
    passport.device.id = id.parse().unwrap();
    passport.id = id.to_string();
    (passport.name, passport.aliases) = (format!("board {id}"), Vec::new());
    passport
}

fn device_id(number: u32) -> String {
    format!("device-{number:032x}")
}

fn resolver(passports: Vec<Passport>) -> PassportResolver {
    PassportResolver::with(PassportCatalog::of(passports), None)
}

/// A node of four 64-bit ARM cores without further facts.
fn bare(name: &str) -> NodeFacts {
    let shown = PrometheusNode {
        name: name.into(),
        architecture: Some("aarch64".into()),
        cores: Some(4),
        ..PrometheusNode::default()
    };
    let kubernetes = KubernetesNode { name: name.into(), ..KubernetesNode::default() };
    NodeFacts { name: name.into(), kubernetes: Some(kubernetes), prometheus: Some(shown) }
}

fn id(resolver: &PassportResolver, node: &NodeFacts) -> String {
    resolver.resolve(node).unwrap().passport.id.clone()
}

#[test]
fn each_fact_goes_before_those_behind_it() {
    let (local, host, shown) = (device_id(1), device_id(2), device_id(3));
    let passports =
        vec![measured(&local, "here"), measured(&host, "lonely-host"), measured(&shown, "elsewhere")];
    let boot = "boot-1".to_string();
    let device = passports[0].device.clone();
    let resolver = PassportResolver::with(PassportCatalog::of(passports), Some(LocalNode { device, boot }));
    let mut node = bare("lonely-host");
    let mut steps: Vec<String> = Vec::new();
    let mut next = |node: &NodeFacts| steps.push(id(&resolver, node));
    node.prometheus.as_mut().unwrap().cores = None;
    node.prometheus.as_mut().unwrap().architecture = None;
    // From lowest to highest precedence, each added to all before.
    node.prometheus.as_mut().unwrap().brand = Some("jetson-nano".into());
    let other = NodeFacts { name: "no-host".into(), ..node.clone() };
    next(&other);
    node.prometheus.as_mut().unwrap().model = Some("Raspberry Pi 4 Model B Rev 1.4".into());
    next(&NodeFacts { name: "no-host".into(), ..node.clone() });
    next(&node);
    node.prometheus.as_mut().unwrap().uuid = Some(shown.clone());
    next(&node);
    let label = |node: &mut NodeFacts, key: &str, value: &str| {
        node.kubernetes.as_mut().unwrap().labels.insert(key.into(), value.into());
    };
    label(&mut node, "board", "raspberry-pi-3b");
    next(&node);
    label(&mut node, "device", "raspberry-pi-4b");
    next(&node);
    label(&mut node, "kubernetes.io/hostname", "jetson-nano");
    next(&node);
    node.name = "raspberry-pi-5".into();
    next(&node);
    node.kubernetes.as_mut().unwrap().boot = "boot-1".into();
    next(&node);
    label(&mut node, DEVICE_LABEL, "raspberry-pi-3b");
    next(&node);
    assert_eq!(
        steps,
        [
            "jetson-nano",
            "raspberry-pi-4b",
            host.as_str(),
            shown.as_str(),
            "raspberry-pi-3b",
            "raspberry-pi-4b",
            "jetson-nano",
            "raspberry-pi-5",
            local.as_str(),
            "raspberry-pi-3b",
        ]
    );
}

#[test]
fn a_node_that_tells_only_its_name_has_the_passport_that_was_measured_there() {
    let (text, other) = (device_id(1), device_id(2));
    let cores = measured(&text, "edge-7").device.cpu.threads;
    let named = |name: &str, cores| {
        let mut node = bare(name);
        node.prometheus.as_mut().unwrap().cores = Some(cores);
        node
    };
    let known = |passports: Vec<Passport>, node: NodeFacts| resolver(passports).resolve(&node).unwrap();
    let found = known(vec![measured(&text, "edge-7")], named("Edge-7", cores));
    assert_eq!((found.passport.id.as_str(), found.is_generic), (text.as_str(), false));
    // For another host, another machine with the same name, or two of that name, only the cores are
    // used.
    assert!(known(vec![measured(&text, "edge-7")], named("edge-70", cores)).is_generic);
    assert!(known(vec![measured(&text, "edge-7")], named("edge-7", cores + 2)).is_generic);
    let twins = vec![measured(&text, "edge-7"), measured(&other, "edge-7")];
    assert!(known(twins, named("edge-7", cores)).is_generic);
}

#[test]
fn a_node_of_another_boot_is_not_this_machine() {
    let passports = vec![measured(&device_id(1), "here")];
    let device = passports[0].device.clone();
    for (own, of_node, is_here) in [("b", "b", true), ("b", "c", false), ("", "", false)] {
        let local = LocalNode { device: device.clone(), boot: own.into() };
        let resolver = PassportResolver::with(PassportCatalog::of(passports.clone()), Some(local));
        let mut node = bare("n");
        node.kubernetes.as_mut().unwrap().boot = of_node.into();
        assert_eq!(!resolver.resolve(&node).unwrap().is_generic, is_here, "{own} {of_node}");
    }
}

#[test]
fn what_is_remembered_of_a_node_ends_with_what_it_was_known_by() {
    let resolver = resolver(vec![]);
    let mut node = bare("n");
    let generic = id(&resolver, &node);
    assert!(generic.starts_with("generic-aarch64"), "{generic}");
    assert_eq!(id(&resolver, &node), generic);
    node.prometheus.as_mut().unwrap().model = Some("Jetson Nano".into());
    assert_eq!(id(&resolver, &node), "jetson-nano");
}

#[test]
fn where_nothing_is_known_it_says_what_would_help() {
    let resolver = resolver(vec![]);
    let why = |change: &dyn Fn(&mut PrometheusNode)| {
        let mut node = bare("n");
        change(node.prometheus.as_mut().unwrap());
        resolver.resolve(&node).unwrap_err()
    };
    let text = why(&|shown| shown.architecture = Some("vax".into()));
    assert!(text.contains("nothing is known of vax, which its 4 cores are"), "{text}");
    assert!(text.contains("no passport is known for it") && text.contains("metier device bench"), "{text}");
    let name_text = why(&|shown| {
        (shown.architecture, shown.cores) = (None, None);
        shown.model = Some("Acme Anvil 9000".into());
    });
    assert!(name_text.starts_with("no passport of \"Acme Anvil 9000\" is known, and neither"), "{name_text}");
    let reason = why(&|shown| {
        shown.cores = None;
        shown.missing.push(MissingFact { what: "device", why: "it says to be \"a\" and \"b\"".into() });
    });
    assert!(reason.contains("(it says to be \"a\" and \"b\"), and how many arm64 cores"), "{reason}");
}
