//! Any bytes as an answer of Prometheus: one query's, and the file of Kepler's queries. It is
//! refused, or its series can be read.

use metier_power::response::KeplerResponse;
use metier_prom::query::QueryResponse;

use super::{FuzzTarget, texts};

pub const TARGET: FuzzTarget = FuzzTarget { name: "prometheus", seeds, run };

fn seeds() -> Vec<Vec<u8>> {
    texts(&[
        r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"up","job":"a"},"value":[1700000000.5,"1"]}]}}"#,
        r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"mode":"idle"},"values":[[1700000000,"0.5"],[1700000003,"NaN"]]}]},"warnings":["w"]}"#,
        r#"{"status":"success","data":{"resultType":"scalar","result":[1700000000,"2"]}}"#,
        r#"{"status":"error","errorType":"bad_data","error":"parse error"}"#,
        r#"{"kepler_container_bpf_cpu_time_ms_total":[{"metric":{"container_name":"a","pod_name":"b"},"values":[[1700000000,"12"],[1700000003,"24"]]}],"node_info":[{"metric":{"cpu_architecture":"x"},"values":[[1700000000,"1"]]}]}"#,
    ])
}

fn run(bytes: &[u8]) {
    if let Ok(response) = QueryResponse::parse(bytes.to_vec()) {
        let _ = (response.as_number(), response.as_matrix().map(<[_]>::len));
        for sample in response.as_vector().into_iter().flatten() {
            assert!(!sample.metric.to_string().is_empty());
        }
    }
    if let Ok(response) = KeplerResponse::read(bytes) {
        for name in ["kepler_container_bpf_cpu_time_ms_total", "node_info"] {
            assert!(!response.has(name) || !response.metric(name).is_empty(), "{name}");
        }
    }
}
