//! `metier place`: the choice as a table and as data, and what is refused.

use crate::common::{Place, refusal, stdout};
use crate::onnx;

#[test]
fn what_cannot_be_asked_for_is_refused_before_any_cluster_is_asked() {
    let place = Place::new();
    let refused = |arguments: &[&str]| {
        let all: Vec<&str> =
            ["place", "--kubeconfig", "/no/such/file"].iter().chain(arguments).copied().collect();
        refusal(&place.command(&all).output().unwrap())
    };
    for (arguments, want) in [
        (&["--graph", "x.onnx", "--apply"][..], "--image"),
        (&["--graph", "x.onnx", "--image", "a b"], "--image is"),
        (&["--graph", "x.onnx", "--name", "Not-A-Name"], "--name is"),
        (&["--graph", "x.onnx", "--image", "x", "--env", "=1"], "--env is"),
        (&["--rollback"], "--name"),
        (&["--graph", "x.onnx", "--prometheus", "localhost:9090", "--load", "50%"], "--load"),
        (&["--graph", "x.onnx", "--prometheus-insecure"], "--prometheus"),
    ] {
        let (code, text) = refused(arguments);
        assert_eq!(code, 2, "{arguments:?} {text}");
        assert!(text.contains(want), "{arguments:?} {text}");
    }
    let (code, text) = refused(&["--graph", "/no/such/graph.onnx"]);
    assert!(code == 1 && text.contains("/no/such/graph.onnx"), "{code} {text}");
    let (code, text) = refused(&["--name", "x", "--rollback"]);
    assert!(code == 1 && text.contains("/no/such/file"), "{code} {text}");
}

#[test]
fn a_prometheus_that_does_not_answer_is_named_with_its_flag() {
    let place = Place::new();
    let graph = place.text("net.onnx");
    let (x, y) = (onnx::value("x", &[1, 8]), onnx::value("y", &[]));
    let network = onnx::graph(&[onnx::node("Relu", &["x"], &["y"], &[])], &[], &[x], &[y]);
    std::fs::write(&graph, onnx::file(&network, 17)).unwrap();
    // Nobody listens there once it is dropped.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let arguments = ["place", "--kubeconfig", "/no/such/file", "--graph", &graph, "--prometheus", &address];
    let (code, text) = refusal(&place.command(&arguments).output().unwrap());
    assert!(code == 1 && text.contains(&format!("--prometheus http://{address}")), "{code} {text}");
}

#[test]
fn where_no_node_can_take_it_the_exit_code_is_3_and_the_data_says_why() {
    let (Ok(kubeconfig), Ok(graphs)) =
        (std::env::var("METIER_LAB_KUBECONFIG"), std::env::var("METIER_LAB_GRAPHS"))
    else {
        eprintln!(
            "SKIP: no cluster or no graphs, because METIER_LAB_KUBECONFIG or METIER_LAB_GRAPHS is not set (lab/lab up)"
        );
        return;
    };
    let place = Place::new();
    let graph = format!("{graphs}/light-squeezenet.onnx");
    let arguments =
        ["place", "--kubeconfig", &kubeconfig, "--graph", &graph, "--arch", "s390x", "-o", "json"];
    let output = place.command(&arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let found: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(
        (found["schema"].as_str(), found["status"].as_str()),
        (Some("metier.placement/1"), Some("infeasible"))
    );
    assert!(found["unplaced"][0]["because"].as_str().unwrap().contains("want s390x"), "{found}");
    assert_eq!(found["assignments"], serde_json::json!([]));
    assert_eq!(found["candidates"][0]["status"], "left-out");
}

#[test]
fn the_predicted_threads_are_the_requested_cores() {
    let (Ok(kubeconfig), Ok(graphs)) =
        (std::env::var("METIER_LAB_KUBECONFIG"), std::env::var("METIER_LAB_GRAPHS"))
    else {
        eprintln!(
            "SKIP: no cluster or no graphs, because METIER_LAB_KUBECONFIG or METIER_LAB_GRAPHS is not set (lab/lab up)"
        );
        return;
    };
    let place = Place::new();
    let graph = format!("{graphs}/light-squeezenet.onnx");
    let fixed = ["place", "--kubeconfig", &kubeconfig, "--graph", &graph, "--image", "serve:1"];
    for more in [&[][..], &["--threads", "1"]] {
        let found = place.json(&[&fixed[..], more, &["-o", "json"]].concat());
        assert_eq!(found["candidates"][0]["threads"], 1, "{found}");
        let manifest = place.ok(&[&fixed[..], more, &["-o", "yaml"]].concat());
        assert!(manifest.contains("cpu: 1000m"), "{manifest}");
        // The annotation is JSON in a quoted string.
        assert!(manifest.contains(r#"\"threads\":1,"#), "{manifest}");
    }
}
