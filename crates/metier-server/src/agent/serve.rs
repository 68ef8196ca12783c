//! The agent's door: `/metrics`, `/healthz`, and a line that says where they are.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use metier_prom::Format;
use metier_types::LockUnpoisoned;

use super::collector::Collector;
use super::config::AgentConfig;
use crate::error::Error;
use crate::http::Reply;
use crate::http::config::HttpConfig;
use crate::http::front::Peer;
use crate::http::listener::{accept, listen, shutdown_signal};
use crate::http::problem::Problem;
use crate::http::{compress, guard};

/// After this time without a scrape files are closed.
const IDLE: Duration = Duration::from_secs(60);

/// The last page of a format, and when it was made.
type Kept = Option<(Instant, Bytes)>;

struct Agent {
    config: HttpConfig,
    listen: SocketAddr,
    fresh: Duration,
    collector: Mutex<Collector>,
    kept: Mutex<[Kept; 2]>,
}

/// Serves until INT or TERM comes.
pub fn run(config: AgentConfig, on_ready: impl FnOnce(SocketAddr)) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()
        .map_err(|source| Error::Runtime { source })?;
    let result = runtime.block_on(async {
        let told = shutdown_signal()?;
        serve(config, on_ready, told).await
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    result
}

/// Serves until `shutdown` is done.
pub async fn serve(
    mut config: AgentConfig,
    on_ready: impl FnOnce(SocketAddr),
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    config.check()?;
    let listener = listen(config.server.listen).await?;
    let address =
        listener.local_addr().map_err(|source| Error::Listen { address: config.server.listen, source })?;
    let collector = Collector::new(&mut config)?;
    let limits = config.server.limits.clone();
    let agent = Arc::new(Agent {
        config: config.server,
        listen: address,
        fresh: config.fresh,
        collector: Mutex::new(collector),
        kept: Mutex::new([None, None]),
    });
    let router = Router::new().fallback(answer).with_state(agent.clone());
    let tidy = tokio::spawn(async move {
        loop {
            tokio::time::sleep(IDLE).await;
            agent.collector.lock_unpoisoned().rest_if_idle(IDLE);
            // Pages that nobody will ask for again.
            let mut kept = agent.kept.lock_unpoisoned();
            kept.iter_mut()
                .for_each(|page| *page = page.take().filter(|(made, _)| made.elapsed() < agent.fresh));
        }
    });
    on_ready(address);
    accept(listener, limits, router, shutdown).await;
    tidy.abort();
    Ok(())
}

async fn answer(State(agent): State<Arc<Agent>>, request: Request) -> Response {
    match reply(&agent, &request) {
        Ok(reply) => {
            let mut response = reply.into_response();
            let headers = response.headers_mut();
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
            headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            response
        }
        Err(problem) => problem.into_response(),
    }
}

fn reply(agent: &Agent, request: &Request) -> Result<Reply, Problem> {
    guard::check_host(&agent.config, agent.listen, request.uri(), request.headers())?;
    guard::check_length(agent.config.limits.body_bytes, request.headers())?;
    let path = request.uri().path();
    guard::admit(&agent.config, path, request.headers())?;
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let detail = format!("{} does nothing here; want GET or HEAD", request.method());
        return Err(Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail).with(header::ALLOW, "GET, HEAD"));
    }
    match path {
        "/healthz" => Ok(Reply::new("text/plain; charset=utf-8", "ok\n")),
        "/" => Ok(Reply::new("text/plain; charset=utf-8", "metier agent: figures are at /metrics\n")),
        "/metrics" => {
            let peer = request.extensions().get::<Peer>();
            let is_compressed = compress::is_wanted(&agent.config.limits, peer, request.headers());
            let from = if is_compressed { agent.config.limits.compress_from_bytes } else { usize::MAX };
            let accept = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok());
            let format = Format::accepted(accept.unwrap_or_default());
            let page = page(agent, format);
            Ok(compress::compress(Reply::new(format.media_type(), page), from))
        }
        _ => {
            let path = crate::http::problem::shorten(path);
            Err(Problem::new(
                StatusCode::NOT_FOUND,
                format!("there is nothing at {path}; want /metrics or /healthz"),
            ))
        }
    }
}

/// The page, made here and now: it takes some milliseconds, and handing it to another thread takes longer on a busy
/// node. All else that is served here is whether we are alive, which can wait so long.
fn page(agent: &Agent, format: Format) -> Bytes {
    let at = usize::from(format == Format::OpenMetrics);
    let mut kept = agent.kept.lock_unpoisoned();
    if let Some((made, page)) = &kept[at]
        && made.elapsed() < agent.fresh
    {
        return page.clone();
    }
    // The older one goes first: two are not needed at once.
    kept[at] = None;
    let mut collector = agent.collector.lock_unpoisoned();
    let page = Bytes::from(collector.page(format));
    if !agent.fresh.is_zero() {
        kept[at] = Some((Instant::now(), page.clone()));
    }
    page
}
