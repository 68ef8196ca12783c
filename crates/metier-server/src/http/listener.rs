//! Listening and connections, and the signals that end both.
//!
//! Connections are HTTP/1.1, each in a task of its own; on shutdown those under way may finish
//! their request within [`HttpLimits::drain_time`].

use std::future::Future;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use super::config::HttpLimits;
use super::gate::PeerAddress;
use super::peer_user::ConnectionEnds;
use super::tls::{TlsIdentity, accept_stream};
use super::write_timeout::WriteTimeoutStream;
use crate::error::Error;

/// Approximate limit of a request's head; bytes of the same read beyond it may still be accepted.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// Done when INT or TERM comes.
pub fn shutdown_signal() -> Result<impl Future<Output = ()>, Error> {
    let watch = |kind| signal(kind).map_err(|source| Error::Signals { source });
    let (mut interrupt, mut terminate) = (watch(SignalKind::interrupt())?, watch(SignalKind::terminate())?);
    Ok(async move {
        let name = tokio::select! {
            _ = interrupt.recv() => "INT",
            _ = terminate.recv() => "TERM",
        };
        tracing::info!(signal = name, "stopping");
    })
}

/// Serves connections until `shutdown` is done; then running requests may finish.
pub async fn serve_connections(
    listener: TcpListener,
    tls: Option<TlsIdentity>,
    limits: HttpLimits,
    router: axum::Router,
    shutdown: impl Future<Output = ()>,
) {
    let service = TowerToHyperService::new(router);
    let places = Arc::new(Semaphore::new(limits.connections.max(1)));
    let (stop, stopping) = watch::channel(false);
    let mut connections = JoinSet::new();
    tokio::pin!(shutdown);

    loop {
        while connections.try_join_next().is_some() {}
        let accepted = async {
            // Acquire the permit before accepting: excess connections then wait in the kernel's
            // queue, not in the server's memory.
            let place = places.clone().acquire_owned().await.ok();
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            accepted = accepted => accepted,
            () = &mut shutdown => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                let (limits, service, stopping) = (limits.clone(), service.clone(), stopping.clone());
                let tls = tls.clone();
                connections.spawn(async move {
                    serve_connection(&limits, tls, stream, peer, service, stopping).await;
                    drop(place);
                });
            }
            Err(error) => {
                // Out of file descriptors, or a client that went away: neither ends the server.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    drop(listener);
    stop.send_replace(true);
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(limits.drain_time, drained).await.is_err() {
        tracing::warn!(connections = connections.len(), "connections were cut: their time was up");
        connections.shutdown().await;
    }
}

pub async fn bind_listener(address: SocketAddr) -> Result<TcpListener, Error> {
    TcpListener::bind(address).await.map_err(|source| match source.kind() {
        ErrorKind::AddrInUse => Error::AddressInUse { address },
        ErrorKind::PermissionDenied if address.port() != 0 && address.port() < 1024 => {
            Error::Privileged { address }
        }
        _ => Error::Listen { address, source },
    })
}

async fn serve_connection(
    limits: &HttpLimits,
    tls: Option<TlsIdentity>,
    stream: TcpStream,
    peer: SocketAddr,
    router: TowerToHyperService<axum::Router>,
    mut stopping: watch::Receiver<bool>,
) {
    // Responses are written whole, so waiting for more to send only delays them.
    let _ = stream.set_nodelay(true);
    let local = stream.local_addr().ok();
    let stream = WriteTimeoutStream::new(stream, limits.write_time);
    let stream = match accept_stream(tls.as_ref(), stream, limits.header_time).await {
        Ok(stream) => TokioIo::new(stream),
        Err(error) => {
            tracing::debug!(%peer, %error, "no TLS handshake");
            return;
        }
    };
    let is_encrypted = tls.is_some();
    let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(PeerAddress(peer));
        if let Some(local) = local {
            request.extensions_mut().insert(ConnectionEnds { peer, local, is_encrypted });
        }
        router.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_time)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(stream, service);
    tokio::pin!(connection);
    let stopped = async { drop(stopping.wait_for(|stopping| *stopping).await) };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopped => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        // Clients that vanish, are too slow or do not speak HTTP; of interest only for debugging.
        tracing::debug!(%peer, %error, "connection ended");
    }
}
