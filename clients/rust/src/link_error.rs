//! Why there is no stream to a coordinator, or why it ended.

use std::fmt;

use tonic_types::StatusExt as _;

/// The domain of a coordinator's codes.
const DOMAIN: &str = "rosterd";

/// Why there is no stream, or why it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkError {
    code: Option<tonic::Code>,
    /// Detected here, before any answer of a coordinator.
    ours: bool,
    /// The coordinator's own code, for example `NAMESPACE_MISMATCH`.
    reason: Option<String>,
    message: String,
}

impl LinkError {
    /// The network failed; retrying may help.
    pub fn lost(message: impl Into<String>) -> Self {
        Self { code: None, ours: true, reason: None, message: message.into() }
    }

    /// A permanent error: a certificate that is not trusted, a file that cannot be read.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self { code: Some(tonic::Code::Unauthenticated), ours: true, reason: None, message: message.into() }
    }

    /// The coordinator's code, of the guide's table of codes; `None`: no coordinator refused.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// The error, without the code.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether it is about authentication or authorization.
    pub fn is_about_rights(&self) -> bool {
        matches!(self.code, Some(tonic::Code::Unauthenticated | tonic::Code::PermissionDenied))
    }

    /// Whether the coordinator rejects this worker, or the worker the coordinator: a wrong credential or certificate, a
    /// namespace that is not served.
    pub(crate) fn rejected(&self) -> bool {
        use tonic::Code;
        matches!(
            self.code,
            Some(
                Code::Unauthenticated
                    | Code::PermissionDenied
                    | Code::InvalidArgument
                    | Code::NotFound
                    | Code::Unimplemented
            )
        )
    }
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(reason) = &self.reason {
            return write!(f, "{reason}: {}", self.message);
        }
        match self.code {
            Some(code) if !self.ours => write!(f, "{code:?}: {}", self.message),
            _ => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for LinkError {}

impl LinkError {
    /// What a coordinator answered instead. Not a `From`, which would be public.
    pub(crate) fn answered(status: &tonic::Status) -> Self {
        let info = status.get_details_error_info();
        let reason = info.filter(|info| info.domain == DOMAIN).map(|info| info.reason);
        Self { code: Some(status.code()), ours: false, reason, message: status.message().to_owned() }
    }
}
