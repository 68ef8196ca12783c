//! The doors of Kepler: its estimator on a unix socket, its model server. Each translates; what is said is decided in `metier-power`.

mod estimator;
mod figures;
mod models;
mod role;

pub use estimator::{Door as EstimatorDoor, Figures, SOCKET};
pub use models::{Models, PORT as MODELS_PORT, router};
pub use role::{Beside, Doors, Opened};
