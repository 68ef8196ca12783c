//! Plain HTTP needs no certificate authority: a cluster and a bucket are reached on a host without
//! any. `power_query` has the same for Prometheus.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};

use crate::common::{Place, stderr};

/// Runs it as on a host without certificate authorities.
fn without_authorities(mut command: Command) -> Output {
    command.env("SSL_CERT_FILE", "/nonexistent/bundle.pem").env("SSL_CERT_DIR", "/nonexistent");
    command.output().unwrap()
}

/// A process that is killed with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_cluster_is_reached_without_authorities() {
    let (Ok(kubeconfig), Ok(graphs)) =
        (std::env::var("METIER_LAB_KUBECONFIG"), std::env::var("METIER_LAB_GRAPHS"))
    else {
        eprintln!(
            "SKIP: a cluster at plain HTTP, because METIER_LAB_KUBECONFIG or METIER_LAB_GRAPHS is not set (lab/lab up)"
        );
        return;
    };
    let place = Place::new();
    let mut proxy = Command::new("kubectl");
    proxy.args(["--kubeconfig", &kubeconfig, "proxy", "--port=0"]).stdout(Stdio::piped());
    let mut proxy = Running(proxy.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(proxy.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().rsplit(' ').next().unwrap();
    let config = format!(
        r#"{{"apiVersion":"v1","kind":"Config","current-context":"p","contexts":[{{"name":"p","context":{{"cluster":"p","user":"p"}}}}],
        "clusters":[{{"name":"p","cluster":{{"server":"http://{address}"}}}}],"users":[{{"name":"p","user":{{}}}}]}}"#
    );
    std::fs::write(place.path("kubeconfig"), config).unwrap();
    let graph = format!("{graphs}/light-squeezenet.onnx");
    let arguments = ["place", "--kubeconfig", &place.text("kubeconfig"), "--graph", &graph, "-o", "json"];
    let output = without_authorities(place.command(&arguments));
    let placement: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    assert_eq!(placement["schema"], "metier.placement/1", "{placement}");
}

#[test]
fn a_bucket_is_asked_without_authorities() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let endpoint = format!("http://{address}");
    let server = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        let mut request = [0; 4096];
        let length = stream.read(&mut request).unwrap();
        let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        String::from_utf8_lossy(&request[..length]).into_owned()
    });
    let arguments = ["run", "--dataset", "s3://bucket/key", "--dataset-endpoint", &endpoint, "--", "true"];
    let mut command = place.command(&arguments);
    command.env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "b");
    let output = without_authorities(command);
    // Ends the server where nothing was asked.
    drop(TcpStream::connect(address));
    assert!(!stderr(&output).contains("certificate"), "{}", stderr(&output));
    assert!(server.join().unwrap().contains("/bucket/key"));
}
