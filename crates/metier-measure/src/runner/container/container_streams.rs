//! Connects the container's standard streams with this process's, as for a command. Output is
//! written by a thread of its own, so that a slow terminal delays the container and not the
//! measurement.

use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bollard::container::LogOutput;
use tokio::sync::mpsc;

use crate::spec::{AwaitedOutput, OutputWatcher};
use metier_linux::wakeup;

/// Maximum number of queued pieces of output.
const QUEUE_LEN: usize = 64;

/// Writes pieces of output to this process's streams, in order, and searches them for the awaited
/// text.
pub(super) fn spawn_writer(awaits: Option<&AwaitedOutput>) -> (mpsc::Sender<LogOutput>, JoinHandle<()>) {
    let (sender, mut receiver) = mpsc::channel::<LogOutput>(QUEUE_LEN);
    let mut eyes = awaits.map(|awaited| [OutputWatcher::new(awaited), OutputWatcher::new(awaited)]);
    let thread = std::thread::spawn(move || {
        while let Some(piece) = receiver.blocking_recv() {
            if let Some([output, errors]) = &mut eyes {
                match &piece {
                    LogOutput::StdErr { message } => errors.scan(message),
                    LogOutput::StdOut { message } | LogOutput::Console { message } => output.scan(message),
                    LogOutput::StdIn { .. } => {}
                }
            }
            // If the reader of this process's output is gone, the container continues.
            let _ = match piece {
                LogOutput::StdErr { message } => write_flushed(&mut std::io::stderr(), &message),
                LogOutput::StdOut { message }
                | LogOutput::Console { message }
                | LogOutput::StdIn { message } => write_flushed(&mut std::io::stdout(), &message),
            };
        }
    });
    (sender, thread)
}

fn write_flushed(stream: &mut dyn Write, message: &[u8]) -> std::io::Result<()> {
    stream.write_all(message)?;
    stream.flush()
}

/// Reads standard input until its end, or until `until` becomes readable.
pub(super) fn spawn_reader(until: Arc<OwnedFd>) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel(QUEUE_LEN);
    std::thread::spawn(move || {
        let mut buffer = vec![0u8; 65536];
        loop {
            let [has_input, is_over] =
                wakeup::wait_readable([0, until.as_raw_fd()], Duration::from_secs(3600));
            if is_over {
                return;
            }
            if !has_input {
                continue;
            }
            // SAFETY: the buffer belongs to this function and its length is passed.
            let got = unsafe { libc::read(0, buffer.as_mut_ptr().cast(), buffer.len()) };
            let piece = usize::try_from(got).ok().filter(|length| *length > 0).map(|n| buffer[..n].to_vec());
            let Some(piece) = piece else { return };
            if sender.blocking_send(piece).is_err() {
                return;
            }
        }
    });
    receiver
}
