//! The doors of Kepler: its estimator on a unix socket, its model server, its trainers. Each translates; what is said is decided in `metier-power`.

mod asking;
mod estimator;
mod figures;
mod kept;
mod models;
mod online;
mod role;
mod trainer;

pub use asking::Asking;
pub use estimator::{Door as EstimatorDoor, Figures, SOCKET};
pub use models::{Models, PORT as MODELS_PORT, router};
pub use online::Online;
pub use role::{Beside, Doors, Opened};
pub use trainer::PORT as TRAINER_PORT;
