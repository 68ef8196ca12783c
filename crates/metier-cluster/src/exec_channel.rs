//! A channel to the launcher in a container of a pod, through the API server: frames of
//! `metier-launch/src/frame.rs` over stdin and stdout.
//!
//! The exec protocol of old API servers cannot close stdin alone, so each protocol has an explicit
//! end frame.

use std::time::Duration;

use kube::api::{AttachParams, AttachedProcess};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::cluster_client::ClusterClient;
use crate::error::api_message;

/// Largest content of a frame.
pub(crate) const MAX_FRAME_BYTES: usize = 64 * 1024;
/// Timeout of one frame.
const FRAME_TIMEOUT: Duration = Duration::from_secs(60);
/// Buffer size of each stream.
const STREAM_BUFFER_BYTES: usize = 2 * MAX_FRAME_BYTES;

/// A program started in a container.
pub(crate) struct ExecChannel {
    _process: AttachedProcess,
    stdin: Box<dyn AsyncWrite + Send + Unpin>,
    stdout: Box<dyn AsyncRead + Send + Unpin>,
}

impl ExecChannel {
    pub async fn open(
        cluster: &ClusterClient,
        pod: &str,
        container: &str,
        words_of_it: Vec<String>,
    ) -> Result<Self, String> {
        let parameters = AttachParams::default()
            .container(container)
            .stdin(true)
            .stderr(false)
            .max_stdin_buf_size(STREAM_BUFFER_BYTES)
            .max_stdout_buf_size(STREAM_BUFFER_BYTES);
        let pods = cluster.pods();
        let started = tokio::time::timeout(FRAME_TIMEOUT, pods.exec(pod, words_of_it, &parameters)).await;
        let mut process = started
            .map_err(|_| "the API server did not start a program in the pod in time".to_string())?
            .map_err(|error| format!("a program cannot be started in the pod: {}", api_message(&error)))?;
        let (Some(stdin), Some(stdout)) = (process.stdin(), process.stdout()) else {
            return Err("the API server gave no streams of a program in the pod".into());
        };
        Ok(Self { _process: process, stdin: Box::new(stdin), stdout: Box::new(stdout) })
    }

    pub async fn send_frame(&mut self, kind: u8, content: &[u8]) -> Result<(), String> {
        let mut frame = Vec::with_capacity(5 + content.len());
        frame.push(kind);
        frame.extend_from_slice(&(content.len() as u32).to_le_bytes());
        frame.extend_from_slice(content);
        self.write_bytes(&frame).await
    }

    /// Sends raw bytes.
    pub async fn write_bytes(&mut self, bytes: &[u8]) -> Result<(), String> {
        let sending = async {
            self.stdin.write_all(bytes).await?;
            self.stdin.flush().await
        };
        match tokio::time::timeout(FRAME_TIMEOUT, sending).await {
            Ok(sent) => sent.map_err(|error| format!("the stream to the pod broke off: {error}")),
            Err(_) => Err("the stream to the pod stood still".into()),
        }
    }

    /// Receives a frame into the buffer. Returns its letter.
    pub async fn receive_frame(&mut self, content: &mut Vec<u8>) -> Result<u8, String> {
        let receiving = async {
            let mut head = [0; 5];
            self.stdout.read_exact(&mut head).await?;
            let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
            if length > MAX_FRAME_BYTES {
                return Err(std::io::Error::other("a frame that is too long"));
            }
            content.resize(length, 0);
            self.stdout.read_exact(content).await?;
            Ok(head[0])
        };
        match tokio::time::timeout(FRAME_TIMEOUT, receiving).await {
            Ok(got) => got.map_err(|error| format!("the stream from the pod broke off: {error}")),
            Err(_) => Err("the stream from the pod stood still".into()),
        }
    }

    /// The rest of the program's output, up to a limit in bytes.
    pub async fn read_rest(&mut self, most: u64) -> Result<String, String> {
        let mut text = Vec::new();
        let mut stdout = (&mut self.stdout).take(most);
        match tokio::time::timeout(FRAME_TIMEOUT, stdout.read_to_end(&mut text)).await {
            Ok(Ok(_)) => Ok(String::from_utf8_lossy(&text).into_owned()),
            Ok(Err(error)) => Err(format!("the stream from the pod broke off: {error}")),
            Err(_) => Err("no answer came from the pod".into()),
        }
    }
}
