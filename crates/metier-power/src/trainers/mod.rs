//! What learns predictors of power from a [`crate::frame::Frame`]: one file for each trainer of [`crate::vocabulary::Trainer`].
