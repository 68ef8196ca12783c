//! Any bytes as the form that starts a Jenkins job. The request is refused with each field, or it
//! reaches the store, which takes no sessions here.

use std::sync::LazyLock;

use super::server::FuzzServer;
use super::{FuzzTarget, texts};

pub const TARGET: FuzzTarget = FuzzTarget { name: "jenkins", seeds, run };

static SERVER: LazyLock<FuzzServer> = LazyLock::new(FuzzServer::start);

fn seeds() -> Vec<Vec<u8>> {
    texts(&[
        "app_name=lab%2Fapp%3A1&app_args=--rate+1+%27a+b%27&app_docker_args=-v+%2Fd%3A%2Fd%3Aro+-e+A%3D1+--gpus+all",
        "app_name=busybox&app_docker_args=-itv+%2Fa%3A%2Fb+--mount+type%3Dbind%2Csource%3D%2Fa%2Ctarget%3D%2Fb+--cpus%3D0.5+-m+1g",
        "app_name=a&app_docker_args=--device+%2Fdev%2Fx+--cap-add+SYS_ADMIN+--shm-size+64m+--entrypoint+sh+-u+1000+-w+%2F",
        "app_name=",
    ])
}

fn run(bytes: &[u8]) {
    let (status, response) =
        SERVER.post("/job/x/buildWithParameters", "application/x-www-form-urlencoded", bytes);
    // 503: the request was right, and the store is only read.
    assert!(matches!(status, 400 | 413 | 503), "{response}");
    assert!(response.contains("application/problem+json"), "{response}");
}
