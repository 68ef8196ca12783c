//! Listening and connections of every server here, and the signals that end both.
//!
//! Connections are HTTP/1.1, each in a task of its own, in a place of
//! [`ConnectionPlaces`](super::connection_places::ConnectionPlaces). On shutdown those under way
//! may finish their request within `drain_time`.

use std::future::Future;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::HttpBody as _;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::HttpState;
use super::connection_places::ConnectionSeat;
use super::gate::PeerAddress;
use super::peer_user::ConnectionEnds;
use super::seated_stream::SeatedStream;
use super::tls::{TlsIdentity, accept_stream};
use crate::error::Error;

/// Approximate limit of a request's head; bytes of the same read beyond it may still be accepted.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// Connections that the kernel holds until they are accepted. A burst beyond it would make honest
/// clients wait a second for their next try.
const BACKLOG: u32 = 4096;
/// Most memory of the kernel for the part of a response that a client has not read.
const SEND_BUFFER_BYTES: u32 = 256 << 10;
/// How often connections beyond their time are cut, and freed memory is returned.
const SWEEP_INTERVAL: Duration = Duration::from_millis(500);

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
    http: Arc<HttpState>,
    router: axum::Router,
    shutdown: impl Future<Output = ()>,
) {
    let service = TowerToHyperService::new(router);
    let (stop, stopping) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut sweep = tokio::time::interval(SWEEP_INTERVAL);
    sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tokio::pin!(shutdown);

    loop {
        while connections.try_join_next().is_some() {}
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = sweep.tick() => {
                sweep_connections(&http);
                continue;
            }
            () = &mut shutdown => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                let seat = tokio::select! {
                    seat = http.bounds.places.admit(peer.ip()) => Arc::new(seat),
                    () = &mut shutdown => break,
                };
                let (http, service, stopping) = (http.clone(), service.clone(), stopping.clone());
                let tls = tls.clone();
                connections.spawn(async move {
                    tokio::select! {
                        () = serve_connection(&http, tls, stream, peer, seat.clone(), service, stopping) => {}
                        () = seat.displaced() => tracing::debug!(%peer, "connection cut"),
                    }
                    http.bounds.note_closed();
                });
            }
            Err(error) => {
                // Out of file descriptors, or a client that went away: neither ends the server.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    let drain_time = http.config.limits.drain_time;
    drop(listener);
    stop.send_replace(true);
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(drain_time, drained).await.is_err() {
        tracing::warn!(connections = connections.len(), "connections were cut: their time was up");
        connections.shutdown().await;
    }
}

/// Cuts connections beyond their time, and returns memory that requests no longer use.
fn sweep_connections(http: &HttpState) {
    http.bounds.places.cut_overdue(&http.config.limits);
    if http.bounds.should_trim() {
        drop(tokio::task::spawn_blocking(metier_linux::allocator::release_free_memory));
    }
}

pub fn bind_listener(address: SocketAddr) -> Result<TcpListener, Error> {
    let bind = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseaddr(true)?;
        // Connections inherit it.
        socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    bind().map_err(|source| match source.kind() {
        ErrorKind::AddrInUse => Error::AddressInUse { address },
        ErrorKind::PermissionDenied if address.port() != 0 && address.port() < 1024 => {
            Error::Privileged { address }
        }
        _ => Error::Listen { address, source },
    })
}

async fn serve_connection(
    http: &HttpState,
    tls: Option<TlsIdentity>,
    stream: TcpStream,
    peer: SocketAddr,
    seat: Arc<ConnectionSeat>,
    router: TowerToHyperService<axum::Router>,
    mut stopping: watch::Receiver<bool>,
) {
    // Responses are written whole, so waiting for more to send only delays them.
    let _ = stream.set_nodelay(true);
    let local = stream.local_addr().ok();
    // Below TLS, so that the bytes of the handshake count as progress too.
    let stream = SeatedStream::new(stream, seat.clone());
    let stream = match accept_stream(tls.as_ref(), stream, http.config.limits.header_time).await {
        Ok(stream) => TokioIo::new(stream),
        Err(error) => {
            tracing::debug!(%peer, %error, "no TLS handshake");
            return;
        }
    };
    let is_encrypted = tls.is_some();
    let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(PeerAddress(peer));
        request.extensions_mut().insert(seat.clone());
        if let Some(local) = local {
            request.extensions_mut().insert(ConnectionEnds { peer, local, is_encrypted });
        }
        let (answer, seat) = (router.call(request), seat.clone());
        async move {
            let answer = answer.await?;
            let bytes = answer.body().size_hint().lower();
            seat.enter_answer(usize::try_from(bytes).unwrap_or(usize::MAX));
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(http.config.limits.header_time)
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
