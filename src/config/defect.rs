//! What is wrong with a configuration, said so that a person can mend it.

use std::fmt;
use std::path::PathBuf;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// The configuration file.
    File(PathBuf),
    /// A variable of the environment.
    Environment(String),
    /// The command line.
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Environment(variable) => f.write_str(variable),
            Self::Flag => f.write_str("command line"),
        }
    }
}

/// One defect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defect {
    /// The field; empty for the file as a whole.
    pub field: String,
    /// Its value and where that comes from.
    pub value: Option<(String, Origin)>,
    /// What is wrong.
    pub problem: String,
    /// What to do.
    pub remedy: String,
    /// Nothing is wrong, but what nobody can choose for the user is not set yet.
    pub unset: bool,
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.field.is_empty() {
            f.write_str(&self.field)?;
            if let Some((value, origin)) = &self.value {
                write!(f, " = {value:?} ({origin})")?;
            }
            f.write_str(": ")?;
        }
        write!(f, "{}; {}", self.problem, self.remedy)
    }
}

/// All defects of one configuration; never empty. Shown one a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Defects(pub Vec<Defect>);
