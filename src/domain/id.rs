//! Identities: one newtype per kind, parsed once at the edge and trusted from then on.
//!
//! Every name that becomes one segment of a registry path goes through [`segment`], so a path can be
//! built from these types and from nothing else.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

/// Longest accepted name of a namespace, job or worker, in bytes.
pub const MAX_NAME: usize = 128;

/// Why a text is no name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {value:?} is not a name: {reason}; use 1 to {MAX_NAME} of the characters A-Z a-z 0-9 . _ -")]
pub struct NameError {
    /// What was to be named, for example `job name`.
    pub kind: &'static str,
    /// The refused text, cut to a length that can be shown.
    pub value: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

fn segment(kind: &'static str, value: &str, max: usize, extra: &str) -> Result<(), NameError> {
    let refuse = |reason| Err(NameError { kind, value: value.chars().take(MAX_NAME + 16).collect(), reason });
    if value.is_empty() {
        return refuse("it is empty");
    }
    if value.len() > max {
        return refuse("it is too long");
    }
    if matches!(value, "." | ".." | "zookeeper") {
        return refuse("it has a meaning of its own in a path");
    }
    // Our own nodes of every namespace stand below this name.
    if kind == "namespace" && value == "rosterd" {
        return refuse("it is taken by rosterd itself");
    }
    if !value.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c) || extra.contains(c)) {
        return refuse("it holds a character that a path segment may not have");
    }
    Ok(())
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $kind:literal, $max:expr, $extra:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $type(std::sync::Arc<str>);

        impl $type {
            /// Checks `value` and wraps it.
            pub fn new(value: impl AsRef<str>) -> Result<Self, NameError> {
                segment($kind, value.as_ref(), $max, $extra)?;
                Ok(Self(value.as_ref().into()))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }

        /// Compares as its text does.
        impl std::borrow::Borrow<str> for $type {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $type {
            type Error = NameError;
            fn try_from(value: String) -> Result<Self, NameError> {
                Self::new(value)
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> String {
                value.0.to_string()
            }
        }

        impl std::str::FromStr for $type {
            type Err = NameError;
            fn from_str(value: &str) -> Result<Self, NameError> {
                Self::new(value)
            }
        }
    };
}

name!(
    /// The root under which jobs live.
    Namespace, "namespace", MAX_NAME, ""
);
name!(
    /// A job's name: one path segment.
    JobName, "job name", MAX_NAME, ""
);
name!(
    /// One worker process under each of its jobs: `{address}@-@{unique}`. Given by a coordinator, never re-used.
    InstanceId, "instance id", 300, "@:[]%"
);
name!(
    /// The address part of an instance id: what the worker states, a label and nothing more.
    ServerAddress, "server address", 255, ":[]%"
);
name!(
    /// A worker process as its attachment names it; the unique part of its instance id.
    WorkerId, "worker id", MAX_NAME, ""
);
name!(
    /// One coordinator process.
    CoordinatorId, "coordinator id", 300, "@:[]%"
);
name!(
    /// A command that waits for the coordinator that can carry it out.
    CommandName, "command name", MAX_NAME, ""
);
name!(
    /// A manual trigger.
    TriggerId, "trigger id", 300, "@:[]%"
);

impl InstanceId {
    /// Elastic-Job's separator between address and unique part.
    pub const SEPARATOR: &'static str = "@-@";

    /// Joins the two parts in Elastic-Job's form.
    pub fn from_parts(address: &ServerAddress, worker: &WorkerId) -> Result<Self, NameError> {
        Self::new(format!("{address}{}{worker}", Self::SEPARATOR))
    }

    /// The address part; the whole id when it has no separator (a foreign instance).
    pub fn address(&self) -> &str {
        self.0.split_once(Self::SEPARATOR).map_or(&*self.0, |(address, _)| address)
    }

    /// The unique part, which names the worker's attachment.
    pub fn worker(&self) -> Option<WorkerId> {
        self.0.split_once(Self::SEPARATOR).and_then(|(_, unique)| WorkerId::new(unique).ok())
    }

    /// Whether its unique part names this worker. Cheap where it does not: who asks goes through thousands of them.
    pub fn is_of(&self, worker: &WorkerId) -> bool {
        self.0.ends_with(worker.as_str()) && self.worker().as_ref() == Some(worker)
    }
}

/// One slice of a job, `0 … n-1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Item(pub u32);

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

macro_rules! number {
    ($(#[$doc:meta])* $type:ident, $of:ty) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
        #[serde(transparent)]
        pub struct $type(pub $of);

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl $type {
            /// One more.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }
    };
}

macro_rules! read_as_it_is {
    ($($type:ident),*) => {
        $(impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                u64::deserialize(from).map(Self)
            }
        })*
    };
}

read_as_it_is!(Epoch, Generation, StreamNumber, Version, Revision);

impl Token {
    /// None that is above this is believed: there would be no room left to go on rising.
    pub const MOST: Self = Self(1 << 62);
}

impl<'de> Deserialize<'de> for Token {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let token = u64::deserialize(from).map(Self)?;
        if token > Self::MOST {
            let why = format!("token {token} is above {}: none so high was ever given", Self::MOST);
            return Err(serde::de::Error::custom(why));
        }
        Ok(token)
    }
}

number!(
    /// A run's fencing token: only grows per item, also across removal and re-creation of the job. 63 bits.
    Token, u64
);
number!(
    /// The version of `leader/election`: grows with every election of the job.
    Epoch, u64
);
number!(
    /// The version of `sharding`: grows with every plan and with every withdrawal of a right.
    Generation, u64
);
number!(
    /// Which of a worker's streams: the worker numbers them, and the number only grows.
    StreamNumber, u64
);
number!(
    /// The version of one registry node (its data), from 0.
    Version, u64
);
number!(
    /// The number of a registry transaction: grows with every commit.
    Revision, u64
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_path_segment() {
        for bad in ["", ".", "..", "zookeeper", "a/b", "a b", "ü", "a\0", "a\n", &"x".repeat(129)] {
            assert!(JobName::new(bad).is_err(), "{bad:?} was accepted");
        }
        for good in ["a", "word-count", "A.b_c-9", &"x".repeat(128)] {
            assert_eq!(JobName::new(good).unwrap().as_str(), good);
        }
    }

    #[test]
    fn a_namespace_does_not_cover_our_own_nodes() {
        assert!(Namespace::new("rosterd").is_err());
        assert!(JobName::new("rosterd").is_ok());
    }

    #[test]
    fn a_refusal_shows_the_beginning_of_what_it_refuses() {
        let refused = JobName::new("x".repeat(500)).unwrap_err();
        assert_eq!((refused.value.as_str(), refused.reason), (&*"x".repeat(144), "it is too long"));
    }

    #[test]
    fn no_token_is_believed_that_leaves_no_room() {
        let read = |token: u64| serde_json::from_str::<Token>(&token.to_string());
        assert_eq!(read(4_611_686_018_427_387_904).unwrap(), Token(4_611_686_018_427_387_904));
        let refused = read(4_611_686_018_427_387_905).unwrap_err().to_string();
        assert!(refused.contains("none so high was ever given"), "{refused}");
    }

    #[test]
    fn an_instance_id_comes_apart_again() {
        let id =
            InstanceId::from_parts(&ServerAddress::new("10.0.0.7").unwrap(), &WorkerId::new("w-1").unwrap())
                .unwrap();
        assert_eq!(id.as_str(), "10.0.0.7@-@w-1");
        assert_eq!(id.address(), "10.0.0.7");
        assert_eq!(id.worker().unwrap().as_str(), "w-1");
        let is_of = |worker| id.is_of(&WorkerId::new(worker).unwrap());
        assert_eq!([is_of("w-1"), is_of("1"), is_of("v-1"), is_of("w-11")], [true, false, false, false]);
    }
}
