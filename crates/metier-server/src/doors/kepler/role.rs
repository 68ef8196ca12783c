//! One role alone: the estimator as a sidecar, the model server. Each serves until INT or TERM.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use metier_power::estimate::Estimator;

use super::estimator::{Door, Figures};
use super::models::{self, Models};
use crate::config::Limits;
use crate::error::Error;
use crate::serve;

fn runtime() -> Result<tokio::runtime::Runtime, Error> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(2)
        .thread_name("metier-power")
        .build()
        .map_err(|source| Error::Runtime { source })
}

/// Serves the estimator's socket.
pub fn run_estimator(socket: &Path, estimator: Arc<Estimator>, on_ready: impl FnOnce()) -> Result<(), Error> {
    let door = Door::open(socket, estimator)?;
    runtime()?.block_on(async {
        let told = serve::until_told()?;
        on_ready();
        told.await;
        Ok(())
    })?;
    drop(door);
    Ok(())
}

/// What a model server that is not on loopback needs: a token, or that it is opened by name.
pub fn check(listen: SocketAddr, has_token: bool, is_open: bool) -> Result<(), Error> {
    if listen.ip().to_canonical().is_loopback() || has_token || is_open {
        return Ok(());
    }
    Err(Error::ClosedModels { address: listen })
}

/// Serves the model server, and the estimator's socket beside it where one is named.
pub fn run_models(
    listen: SocketAddr,
    mut models: Models,
    estimator: Option<(&Path, Arc<Estimator>)>,
    on_ready: impl FnOnce(SocketAddr),
) -> Result<(), Error> {
    let door = match estimator {
        Some((socket, estimator)) => {
            let door = Door::open(socket, estimator.clone())?;
            let figures: Arc<Figures> = door.figures.clone();
            models.estimator = Some((estimator, figures));
            Some(door)
        }
        None => None,
    };
    let router = models::router(Arc::new(models));
    let runtime = runtime()?;
    let served = runtime.block_on(async {
        let told = serve::until_told()?;
        let listener = serve::listen(listen).await?;
        let address = listener.local_addr().map_err(|source| Error::Listen { address: listen, source })?;
        on_ready(address);
        serve::accept(listener, Limits::default(), router, told).await;
        Ok(())
    });
    drop(door);
    served
}
