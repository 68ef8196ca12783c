//! The container's standard streams, as if it were a command: what it writes goes to ours, and ours to it where that is
//! wanted. Writing is a thread of its own, so that a slow terminal holds the container back and not the measuring.

use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bollard::container::LogOutput;
use tokio::sync::mpsc;

use crate::spec::{AwaitedOutput, OutputWatcher};
use metier_linux::wakeup;

/// Pieces of output that may wait to be written.
const QUEUE_LEN: usize = 64;

/// Writes what it is handed to our own streams, in order, with an eye on what is awaited.
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
            // Nobody who reads it any more: the container goes on, as it would behind a closed pipe of ours.
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

/// Reads our standard input until its end, or until the bell is rung.
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
            // SAFETY: the buffer is ours and its length is passed.
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
