//! Any bytes as a multipart form with a graph: the first byte ends the boundary's name, the rest is
//! the body. The request is refused with the field; no part of it breaks the server.

use std::sync::LazyLock;

use super::server::FuzzServer;
use super::{FuzzTarget, texts};

pub const TARGET: FuzzTarget = FuzzTarget { name: "upload", seeds, run };

static SERVER: LazyLock<FuzzServer> = LazyLock::new(FuzzServer::start);

fn seeds() -> Vec<Vec<u8>> {
    texts(&[
        "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"net.onnx\"\r\nContent-Type: application/octet-stream\r\n\r\n\u{8}\u{8}B\u{2}\u{10}\u{11}:\u{0}\r\n--x\r\nContent-Disposition: form-data; name=\"model_input_size\"\r\n\r\n602112\r\n--x\r\nContent-Disposition: form-data; name=\"model_output_size\"\r\n\r\n4000\r\n--x\r\nContent-Disposition: form-data; name=\"cpu_usage(percentage)\"\r\n\r\n10\r\n--x\r\nContent-Disposition: form-data; name=\"disk_usage(percentage)\"\r\n\r\n10\r\n--x\r\nContent-Disposition: form-data; name=\"device_type\"\r\n\r\nnano\r\n--x--\r\n",
        "--x\r\nContent-Disposition: form-data; name=\"shape\"\r\n\r\nx=1x3x224x224\r\n--x\r\nContent-Disposition: form-data; name=\"apply\"\r\n\r\ntrue\r\n--x\r\nContent-Disposition: form-data; name=\"deployment\"\r\n\r\n{\"image\":\"serve:1\",\"ports\":[8080]}\r\n--x--\r\n",
        "--x--\r\n",
    ])
}

fn run(bytes: &[u8]) {
    let (status, response) = SERVER.post("/upload", "multipart/form-data; boundary=x", bytes);
    // 503 without a Prometheus; a graph for a described device may even be answered.
    assert!(matches!(status, 201 | 400 | 413 | 415 | 422 | 503), "{response}");
}
