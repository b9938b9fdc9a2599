//! The composition root: the only file that knows every module.

use crate::config::Config;

/// Why a coordinator could not be started, or ended other than by request.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The parts are not put together yet.
    #[error("not wired yet")]
    NotWired,
}

/// Serves until it is asked to stop.
pub async fn serve(_config: Config) -> Result<(), AppError> {
    Err(AppError::NotWired)
}

/// Serves with a demonstration job and its worker, until it is asked to stop.
pub async fn dev(_config: Config) -> Result<(), AppError> {
    Err(AppError::NotWired)
}
