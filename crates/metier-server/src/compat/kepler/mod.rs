//! Kepler-compatible services: the estimator on a unix socket, the model server, the trainers. They
//! only translate; decisions are made in `metier-power`.

mod estimator_socket;
mod metrics_page;
mod model_fetcher;
mod model_server;
mod online_trainer;
mod pending_clients;
mod request_buffer;
mod services;
mod trainer;

pub use estimator_socket::{DEFAULT_SOCKET_PATH, EstimatorSocket as EstimatorDoor, EstimatorSocketCounters};
pub use model_fetcher::FetchConfig;
pub use model_server::PORT as MODELS_PORT;
pub use online_trainer::OnlineTrainerConfig;
pub use services::{BackgroundServices, KeplerServices, OpenedServices};
pub use trainer::PORT as TRAINER_PORT;
