//! Blocking work of handlers, on threads of its own, with a limit for each lane.

use std::sync::Arc;

use axum::http::StatusCode;
use tokio::sync::Semaphore;

use super::problem::ProblemDetails;

/// The lane of a blocking task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneKind {
    /// Store calls, a few at a time.
    Store,
    /// Long tasks without the store, one at a time, so that they do not delay store calls.
    Aside,
    /// Computation only, as many at a time as there are processors.
    Compute,
    /// Placements in a cluster, one at a time: two concurrent surveys would both choose the same
    /// room.
    Place,
}

/// Bounds the concurrent blocking work, lane by lane.
pub struct BlockingLanes {
    store: Arc<Semaphore>,
    aside: Arc<Semaphore>,
    compute: Arc<Semaphore>,
    place: Arc<Semaphore>,
}

impl BlockingLanes {
    /// With this limit of concurrent store calls.
    pub fn new(store_calls: usize) -> Self {
        let lane = |most: usize| Arc::new(Semaphore::new(most));
        Self {
            store: lane(store_calls.max(1)),
            aside: lane(1),
            compute: lane(processor_count()),
            place: lane(1),
        }
    }

    /// Threads that all lanes together can occupy.
    pub fn threads(store_calls: usize) -> usize {
        store_calls.max(1) + 2 + processor_count()
    }

    /// Runs blocking work on a thread of its own, when its lane has room.
    ///
    /// The place is released when the work ends, not when the client gives up, so that a slow store
    /// gets no further calls.
    pub async fn run<T: Send + 'static>(
        &self,
        lane: LaneKind,
        work: impl FnOnce() -> Result<T, ProblemDetails> + Send + 'static,
    ) -> Result<T, ProblemDetails> {
        let gate = match lane {
            LaneKind::Store => &self.store,
            LaneKind::Aside => &self.aside,
            LaneKind::Compute => &self.compute,
            LaneKind::Place => &self.place,
        };
        let Ok(turn) = gate.clone().acquire_owned().await else {
            return Err(ProblemDetails::unavailable("the server is stopping"));
        };
        let work = move || {
            let result = work();
            drop(turn);
            result
        };
        match tokio::task::spawn_blocking(work).await {
            Ok(result) => result,
            Err(error) => {
                tracing::error!(%error, "a handler did not come to its end");
                let detail = "this is a defect of the server; its log says more, under this request's id";
                Err(ProblemDetails::new(StatusCode::INTERNAL_SERVER_ERROR, detail))
            }
        }
    }
}

/// Number of processors, bounded.
fn processor_count() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get().min(16))
}
