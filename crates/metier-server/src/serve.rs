//! Listening, connections, and the end.
//!
//! One thread serves; store calls run on a few others. That is enough for a page and its tools, and keeps the
//! resident size small beside what is being measured. Connections are HTTP/1.1, each in a task of its own;
//! on shutdown those under way may finish their request within [`Limits::drain_time`](crate::Limits).

use std::future::Future;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use metier_store::Store;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::compat::soprano::{Desk, Kept};
use crate::config::{Config, Limits};
use crate::error::Error;
use crate::http;
use crate::http::front::{Line, Peer};
use crate::http::rate::Rate;
use crate::http::write_limit::WriteLimited;
use crate::metrics::Requests;
use crate::power::Sampler;
use crate::storage::Storage;

/// Largest head of a request, about: what one read brings beyond it may still be taken.
const HEAD_BYTES: usize = 64 << 10;
/// How long the threads for blocking work stay after their last call.
const IDLE_THREAD: Duration = Duration::from_secs(10);

/// What all requests share.
pub struct Server {
    /// What the server was told.
    pub config: Config,
    /// Where it listens, with the port it got.
    pub listen: SocketAddr,
    pub storage: Storage,
    pub requests: Requests,
    /// What the SOPRANO profiler's doors have at hand.
    pub soprano: Desk,
    /// Who looks at the power of this node.
    pub power: Option<Sampler>,
    /// How often runs may be asked for.
    pub starts: Rate,
    pub started: SystemTime,
}

/// What all requests share.
pub type App = Arc<Server>;

/// Serves until INT or TERM comes; requests under way are finished first.
///
/// `on_ready` is called once with the address when connections are accepted.
pub fn run(config: Config, store: Store, on_ready: impl FnOnce(SocketAddr)) -> Result<(), Error> {
    let drain_time = config.limits.drain_time;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // More than store calls: for what goes aside of them, what is placed, and what only computes.
        .max_blocking_threads(config.limits.store_calls.max(1) + 2 + crate::storage::processors())
        .thread_keep_alive(IDLE_THREAD)
        .thread_name("metier-store")
        .build()
        .map_err(|source| Error::Runtime { source })?;
    let result = runtime.block_on(async {
        let shutdown = until_told()?;
        serve(config, store, on_ready, shutdown).await
    });
    // A store call that hangs must not keep the process.
    runtime.shutdown_timeout(drain_time.min(Duration::from_secs(1)));
    result
}

/// Done when INT or TERM comes.
pub(crate) fn until_told() -> Result<impl Future<Output = ()>, Error> {
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

/// Serves until `shutdown` is done; requests under way are finished first.
///
/// `on_ready` is called once with the address when connections are accepted.
pub async fn serve(
    config: Config,
    store: Store,
    on_ready: impl FnOnce(SocketAddr),
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    config.check()?;
    let listener = listen(config.listen).await?;
    let listen = listener.local_addr().map_err(|source| Error::Listen { address: config.listen, source })?;
    let limits = config.limits.clone();
    let further = further(&config.doors).await;
    let app = Arc::new(Server {
        soprano: Desk::new(&config.soprano)?,
        power: config.power.clone().map(Sampler::start).transpose()?,
        storage: Storage::new(store, limits.store_calls),
        config,
        listen,
        requests: Requests::default(),
        starts: Rate::new(f64::from(limits.starts), f64::from(limits.starts) / 5.0),
        started: SystemTime::now(),
    });
    let kept = Kept::start(&app).await;
    let router = http::router(app);
    on_ready(listen);
    let (stop, stopping) = watch::channel(false);
    let others = further.into_iter().map(|listener| {
        let mut stopping = stopping.clone();
        let until = async move { drop(stopping.wait_for(|stopping| *stopping).await) };
        accept(listener, limits.clone(), router.clone(), until)
    });
    let others: JoinSet<()> = others.collect();
    accept(listener, limits, router, shutdown).await;
    stop.send_replace(true);
    others.join_all().await;
    kept.end().await;
    Ok(())
}

/// Listens for doors that have an address of their own. One that is taken is done without: what it is for can be had at the main one.
async fn further(doors: &[(String, SocketAddr)]) -> Vec<TcpListener> {
    let mut listeners = Vec::new();
    for (door, address) in doors {
        match listen(*address).await {
            Ok(listener) => {
                let address = listener.local_addr().unwrap_or(*address);
                tracing::info!(door, %address, "a door has an address of its own");
                listeners.push(listener);
            }
            Err(error) => tracing::warn!(door, %error, "the door is at the main address only"),
        }
    }
    listeners
}

/// Answers connections until `shutdown` is done; then those under way may finish.
pub(crate) async fn accept(
    listener: TcpListener,
    limits: Limits,
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
            // The place first: who finds none waits in the kernel's queue, not in our memory.
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
                connections.spawn(async move {
                    connection(&limits, stream, peer, service, stopping).await;
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

pub(crate) async fn listen(address: SocketAddr) -> Result<TcpListener, Error> {
    TcpListener::bind(address).await.map_err(|source| match source.kind() {
        ErrorKind::AddrInUse => Error::Taken { address },
        ErrorKind::PermissionDenied if address.port() != 0 && address.port() < 1024 => {
            Error::Privileged { address }
        }
        _ => Error::Listen { address, source },
    })
}

async fn connection(
    limits: &Limits,
    stream: TcpStream,
    peer: SocketAddr,
    router: TowerToHyperService<axum::Router>,
    mut stopping: watch::Receiver<bool>,
) {
    // Answers are written whole; waiting for more to send only delays them.
    let _ = stream.set_nodelay(true);
    let local = stream.local_addr().ok();
    let stream = TokioIo::new(WriteLimited::new(stream, limits.write_time));
    let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        if let Some(local) = local {
            request.extensions_mut().insert(Line { peer, local });
        }
        router.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_time)
        .max_buf_size(HEAD_BYTES)
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
        // Clients that vanish, are too slow or do not speak HTTP: of interest only when looking for something.
        tracing::debug!(%peer, %error, "connection ended");
    }
}
