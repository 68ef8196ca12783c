//! Starts the server: its state, listeners and tasks, and their shutdown.
//!
//! One thread serves; store calls run on a few others. That is enough for a page and its tools. It
//! also keeps the resident memory small beside the measured program.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use metier_stats::ChangeMemo;
use metier_store::RecordStore;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::app_state::AppState;
use crate::config::Config;
use crate::error::Error;
use crate::http::HttpState;
use crate::http::blocking_lanes::BlockingLanes;
use crate::http::build_router;
use crate::http::listener::{bind_listener, serve_connections, shutdown_signal};
use crate::page;
use crate::placement_cache::{CacheTasks, PlacementCache};
use crate::power::PowerSampler;
use crate::routes::ROUTES;
use crate::storage::StoreHandle;

/// How long idle threads for blocking work stay.
const THREAD_KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Serves until INT or TERM comes; running requests are finished first.
///
/// `on_ready` is called once with the address when connections are accepted.
pub fn run(config: Config, store: RecordStore, on_ready: impl FnOnce(SocketAddr)) -> Result<(), Error> {
    let drain_time = config.http.limits.drain_time;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // The lanes besides store calls need threads, too: aside, placement and computation.
        .max_blocking_threads(BlockingLanes::threads(config.http.limits.store_calls))
        .thread_keep_alive(THREAD_KEEP_ALIVE)
        .thread_name("metier-store")
        .build()
        .map_err(|source| Error::Runtime { source })?;
    let result = runtime.block_on(async {
        let shutdown = shutdown_signal()?;
        serve(config, store, on_ready, shutdown).await
    });
    // A store call that hangs must not keep the process alive.
    runtime.shutdown_timeout(drain_time.min(Duration::from_secs(1)));
    result
}

/// Serves until `shutdown` is done; running requests are finished first.
///
/// `on_ready` is called once with the address when connections are accepted.
pub async fn serve(
    config: Config,
    store: RecordStore,
    on_ready: impl FnOnce(SocketAddr),
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    config.http.check()?;
    let address = config.http.listen;
    let listener = bind_listener(address).await?;
    let listen = listener.local_addr().map_err(|source| Error::Listen { address, source })?;
    let (tls, limits) = (config.http.tls.clone(), config.http.limits.clone());
    let further = bind_further_listeners(&config.http.doors).await;
    let app = Arc::new(AppState {
        http: HttpState::new(config.http.clone(), listen).into(),
        soprano: PlacementCache::new(&config.soprano)?.into(),
        power: config.power.clone().map(PowerSampler::start).transpose()?,
        storage: StoreHandle::new(store).into(),
        config,
        changes: ChangeMemo::default(),
        started: SystemTime::now(),
    });
    let tasks = CacheTasks::start(&app.soprano, &app.storage, &app.http).await;
    let router = build_router(app, ROUTES, page::serve_page_file);
    on_ready(listen);
    let (stop, stopping) = watch::channel(false);
    let others = further.into_iter().map(|listener| {
        let mut stopping = stopping.clone();
        let until = async move { drop(stopping.wait_for(|stopping| *stopping).await) };
        serve_connections(listener, None, limits.clone(), router.clone(), until)
    });
    let others: JoinSet<()> = others.collect();
    serve_connections(listener, tls, limits, router, shutdown).await;
    stop.send_replace(true);
    others.join_all().await;
    tasks.stop().await;
    Ok(())
}

/// Listens on the separate addresses of interfaces. If an address is in use, that listener is
/// skipped with a warning; its interface stays available at the main address.
async fn bind_further_listeners(doors: &[(String, SocketAddr)]) -> Vec<TcpListener> {
    let mut listeners = Vec::new();
    for (door, address) in doors {
        match bind_listener(*address).await {
            Ok(listener) => {
                let address = listener.local_addr().unwrap_or(*address);
                tracing::info!(door, %address, "an interface has an address of its own");
                listeners.push(listener);
            }
            Err(error) => tracing::warn!(door, %error, "the interface is at the main address only"),
        }
    }
    listeners
}
