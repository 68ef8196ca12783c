//! The agent's HTTP interface: `/metrics`, `/healthz`, and an index line with their paths.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use metier_prom::ExpositionFormat;
use metier_types::LockUnpoisoned;

use super::collector::AgentCollector;
use super::config::AgentConfig;
use crate::error::Error;
use crate::http::HandlerResponse;
use crate::http::config::HttpConfig;
use crate::http::gate::PeerAddress;
use crate::http::listener::{bind_listener, serve_connections, shutdown_signal};
use crate::http::peer_user::ConnectionEnds;
use crate::http::problem::ProblemDetails;
use crate::http::{access_control, compress};

/// Group files are closed after this time without a scrape.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// The last page of a format, and when it was made.
type CachedPage = Option<(Instant, Bytes)>;

struct AgentState {
    config: HttpConfig,
    listen: SocketAddr,
    fresh: Duration,
    collector: Mutex<AgentCollector>,
    pages: Mutex<[CachedPage; 2]>,
}

/// Serves until INT or TERM comes.
pub fn run(config: AgentConfig, on_ready: impl FnOnce(SocketAddr)) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()
        .map_err(|source| Error::Runtime { source })?;
    let result = runtime.block_on(async {
        let future = shutdown_signal()?;
        serve(config, on_ready, future).await
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
    let listener = bind_listener(config.server.listen).await?;
    let address =
        listener.local_addr().map_err(|source| Error::Listen { address: config.server.listen, source })?;
    let collector = AgentCollector::new(&mut config)?;
    let limits = config.server.limits.clone();
    let agent = Arc::new(AgentState {
        config: config.server,
        listen: address,
        fresh: config.fresh,
        collector: Mutex::new(collector),
        pages: Mutex::new([None, None]),
    });
    let router = Router::new().fallback(handle_request).with_state(agent.clone());
    let tidy = tokio::spawn(async move {
        loop {
            tokio::time::sleep(IDLE_TIMEOUT).await;
            agent.collector.lock_unpoisoned().close_files_if_idle(IDLE_TIMEOUT);
            // Drop pages that have expired.
            let mut pages = agent.pages.lock_unpoisoned();
            pages
                .iter_mut()
                .for_each(|page| *page = page.take().filter(|(made, _)| made.elapsed() < agent.fresh));
        }
    });
    on_ready(address);
    serve_connections(listener, None, limits, router, shutdown).await;
    tidy.abort();
    Ok(())
}

async fn handle_request(State(agent): State<Arc<AgentState>>, request: Request) -> Response {
    match route_request(&agent, &request) {
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

fn route_request(agent: &AgentState, request: &Request) -> Result<HandlerResponse, ProblemDetails> {
    access_control::check_host(&agent.config, agent.listen, request.uri(), request.headers())?;
    access_control::check_length(agent.config.limits.body_bytes, request.headers())?;
    let path = request.uri().path();
    let line = request.extensions().get::<ConnectionEnds>();
    access_control::authorise(&agent.config, path, request.headers(), line)?;
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let detail = format!("{} does nothing here; want GET or HEAD", request.method());
        return Err(ProblemDetails::new(StatusCode::METHOD_NOT_ALLOWED, detail)
            .with_header(header::ALLOW, "GET, HEAD"));
    }
    match path {
        "/healthz" => Ok(HandlerResponse::new("text/plain; charset=utf-8", "ok\n")),
        "/" => {
            Ok(HandlerResponse::new("text/plain; charset=utf-8", "metier agent: figures are at /metrics\n"))
        }
        "/metrics" => {
            let peer = request.extensions().get::<PeerAddress>();
            let is_compressed = compress::accepts_gzip(&agent.config.limits, peer, request.headers());
            let from = if is_compressed { agent.config.limits.compress_from_bytes } else { usize::MAX };
            let accept = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok());
            let format = ExpositionFormat::from_accept_header(accept.unwrap_or_default());
            let page = cached_page(agent, format);
            Ok(compress::compress_response(HandlerResponse::new(format.media_type(), page), from))
        }
        _ => {
            let path = crate::http::problem::shorten_text(path);
            Err(ProblemDetails::new(
                StatusCode::NOT_FOUND,
                format!("there is nothing at {path}; want /metrics or /healthz"),
            ))
        }
    }
}

/// The page, made on the serving thread. It takes some milliseconds; handing it to another thread
/// takes longer on a busy node. The only other route is the health check, which can wait that long.
fn cached_page(agent: &AgentState, format: ExpositionFormat) -> Bytes {
    let at = usize::from(format == ExpositionFormat::OpenMetrics);
    let mut pages = agent.pages.lock_unpoisoned();
    if let Some((made, page)) = &pages[at]
        && made.elapsed() < agent.fresh
    {
        return page.clone();
    }
    // Drop the old page first, so that two are not in memory at once.
    pages[at] = None;
    let mut collector = agent.collector.lock_unpoisoned();
    let page = Bytes::from(collector.render_page(format));
    if !agent.fresh.is_zero() {
        pages[at] = Some((Instant::now(), page.clone()));
    }
    page
}
