//! Files of runs over the API.

use crate::common::*;
use metier_types::*;

#[test]
fn a_file_comes_back_byte_by_byte_as_a_download_that_no_browser_runs() {
    let (_folder, store) = store();
    let run = run("alpha", BatchId::new(), 0);
    store.put_run(&run, &[]).unwrap();
    let content: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    for name in ["page.html", "out/trace \"1\".bin"] {
        let (digest, size) = store.put_artefact(&mut content.as_slice()).unwrap();
        store.link_artefact(run.id, &ArtefactRef::new(name, "text/html", digest, size)).unwrap();
    }
    let server = Server::start(&store);
    let path = format!("/api/v1/runs/{}/artefacts", run.id);
    let header = |answer: &Response, name: &str| {
        let found = answer.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    };
    let answer = server.get(&format!("{path}/page.html"));
    assert_eq!((answer.status, &answer.body), (200, &content));
    assert_eq!(header(&answer, "content-type"), "application/octet-stream");
    assert_eq!(header(&answer, "content-disposition"), "attachment; filename=\"page.html\"");
    assert_eq!(header(&answer, "x-content-type-options"), "nosniff");
    let answer = server.get(&format!("{path}/out%2Ftrace%20%221%22.bin"));
    assert_eq!((answer.status, &answer.body), (200, &content));
    for (missing, status) in [("nothing", 404), ("..%2F..%2Fetc%2Fpasswd", 404)] {
        assert_eq!(server.get(&format!("{path}/{missing}")).status, status, "{missing}");
    }
    let nowhere = format!("/api/v1/runs/{}/artefacts/x", RunId::new());
    assert_eq!(server.get(&nowhere).status, 404);
}
