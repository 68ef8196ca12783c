//! Checks the readiness rule of a run.

use super::super::address::is_web;
use super::super::checked::{DEFAULT_READY_TIMEOUT, ReadinessRule, ReadinessSign};
use super::super::fault::RunFileFault;
use super::super::file::Ready;
use super::RunFileCheck;

impl RunFileCheck {
    pub(super) fn ready(&mut self, ready: &Ready, path: &str, is_unread: bool) -> Option<ReadinessRule> {
        let port = self.read(
            format!("{path}.port"),
            ready.port.as_ref(),
            "a port such as 8080 or 127.0.0.1:8080",
            |text| {
                let (host, port) = text.rsplit_once(':').unwrap_or(("127.0.0.1", text));
                port.parse()
                    .ok()
                    .filter(|port| *port > 0)
                    .map(|port| ReadinessSign::Port(host.to_string(), port))
            },
        );
        let http = self.read(
            format!("{path}.http"),
            ready.http.as_ref(),
            "an address such as http://127.0.0.1:8080/ready",
            |text| is_web(text).then(|| ReadinessSign::Http(text.to_string())),
        );
        let file = ready.file.as_ref().map(|file| ReadinessSign::File(file.into()));
        let output =
            self.read(format!("{path}.output"), ready.output.as_ref(), "a text that it prints", |text| {
                (!text.is_empty() && !text.contains('\n')).then(|| ReadinessSign::Output(text.to_string()))
            });
        let given =
            [ready.port.is_some(), ready.http.is_some(), ready.file.is_some(), ready.output.is_some()];
        let count = given.into_iter().filter(|is| *is).count();
        if count != 1 {
            let got = format!("{count} of port, http, file and output");
            self.faults.push(RunFileFault::new(path, got, "exactly one of them"));
        }
        if is_unread && ready.output.is_some() {
            let want = "port, http or file: what a command prints goes where you sent it, unread";
            self.faults.push(RunFileFault::new(format!("{path}.output"), "given", want));
        }
        let sign = port.or(http).or(file).or(output)?;
        Some(ReadinessRule { sign, within: ready.within.unwrap_or(DEFAULT_READY_TIMEOUT) })
    }
}
