//! A connection's stream that reports progress to its place.
//!
//! The time limits of HTTP libraries cover a request's head and its handler. A client that stops
//! reading in the middle of a large response would hold its connection for ever. Its place knows
//! when the latest byte went out, so such a connection is cut.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connection_places::ConnectionSeat;

/// A stream with the place of its connection.
pub struct SeatedStream<S> {
    stream: S,
    seat: Arc<ConnectionSeat>,
}

impl<S> SeatedStream<S> {
    pub fn new(stream: S, seat: Arc<ConnectionSeat>) -> Self {
        Self { stream, seat }
    }

    fn note_written(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if matches!(written, Poll::Ready(Ok(1..))) {
            self.seat.note_progress();
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for SeatedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.seat.note_read(read.is_pending());
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for SeatedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.note_written(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.note_written(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.seat.note_flushed();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
