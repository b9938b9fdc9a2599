//! Identities: one newtype per kind, parsed once at the edge and trusted from then on.
//!
//! Every name that becomes one segment of a registry path goes through [`segment`], so a path can be built from these
//! types and from nothing else. People name jobs and namespaces, in any script ([`word`]); programs name everything
//! else, in ASCII.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};
use unicode_normalization::char::is_combining_mark;
use unicode_normalization::{UnicodeNormalization as _, is_nfc};

/// Longest accepted name of a namespace, job or worker, in characters.
pub const MAX_NAME: usize = 128;
/// Longest accepted name of a namespace or job, in bytes: stores and file systems count these.
pub const MAX_NAME_BYTES: usize = 255;

/// Why a text is not a valid name. The text is shown with escapes for characters that a terminal would obey or hide.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {} is not a name: {reason}; {remedy}", self.shown())]
pub struct NameError {
    /// The kind of name, for example `job name`.
    pub kind: &'static str,
    /// The refused text, cut to a length that can be shown.
    pub value: String,
    /// What is wrong with it.
    pub reason: &'static str,
    /// What to write instead.
    pub remedy: String,
}

impl NameError {
    fn new(kind: &'static str, value: &str, reason: &'static str, remedy: String) -> Self {
        Self { kind, value: value.chars().take(MAX_NAME + 16).collect(), reason, remedy }
    }

    /// The refused text as it can be shown.
    pub fn shown(&self) -> String {
        shown(&self.value)
    }
}

/// The rules for every path segment.
fn check_segment(kind: &str, value: &str) -> Result<(), &'static str> {
    if value.is_empty() {
        return Err("it is empty");
    }
    if matches!(value, "." | ".." | "zookeeper") {
        return Err("it has a meaning of its own in a path");
    }
    // Our own nodes of every namespace are below this name.
    if kind == "namespace" && value == "rosterd" {
        return Err("it is taken by rosterd itself");
    }
    Ok(())
}

/// A name that a program chooses.
fn segment(kind: &'static str, value: &str, max: usize, extra: &str) -> Result<(), NameError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') || extra.contains(c);
    let checked = check_segment(kind, value).and_then(|()| match value {
        _ if value.len() > max => Err("it is too long"),
        _ if !value.chars().all(allowed) => Err("it holds a character that a path segment may not have"),
        _ => Ok(()),
    });
    checked.map_err(|reason| {
        let more: String = extra.chars().flat_map(|c| [' ', c]).collect();
        let remedy = format!("use 1 to {max} of the characters A-Z a-z 0-9 . _ -{more}");
        NameError::new(kind, value, reason, remedy)
    })
}

/// A name that a person chooses, in any script. It has exactly one spelling (NFC), and no character that is invisible,
/// controls a terminal or changes the direction of adjacent text. All characters are in the basic plane: ZooKeeper
/// accepts no others in a path.
fn word(kind: &'static str, value: &str, max: usize, extra: &str) -> Result<(), NameError> {
    debug_assert!((max, extra) == (MAX_NAME, ""), "one rule for all of these");
    let checked = check_segment(kind, value).and_then(|()| match value {
        _ if value.len() > MAX_NAME_BYTES => Err("it is too long"),
        _ if value.chars().count() > MAX_NAME => Err("it is too long"),
        _ if value.is_ascii() => value
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
            .then_some(())
            .ok_or("it holds a character that a name may not have"),
        _ if value.chars().next().is_some_and(is_combining_mark) => Err("it begins with a combining mark"),
        _ if !value.chars().all(is_of_names) => Err("it holds a character that a name may not have"),
        _ => Ok(()),
    });
    let remedy = |reason| {
        let remedy = format!(
            "use 1 to {MAX_NAME} letters, marks and digits of any script or . _ -, at most {MAX_NAME_BYTES} bytes"
        );
        NameError::new(kind, value, reason, remedy)
    };
    checked.map_err(remedy)?;
    if value.is_ascii() || is_nfc(value) {
        return Ok(());
    }
    let composed: String = value.nfc().collect();
    let remedy = format!("write it as \"{composed}\"");
    Err(NameError::new(kind, value, "it is not in Unicode's composed form (NFC)", remedy))
}

/// In quotes, with escapes for every character that might be displayed as something else.
fn shown(value: &str) -> String {
    let plain = |c: char| c.is_ascii() || (is_of_names(c) && !is_combining_mark(c));
    let inner: String = value
        .chars()
        .map(|c| if plain(c) { c.escape_debug().to_string() } else { c.escape_unicode().to_string() })
        .collect();
    format!("\"{inner}\"")
}

fn is_of_names(c: char) -> bool {
    let shows_nothing = matches!(
        c,
        '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}'
    );
    (c.is_alphanumeric() || is_combining_mark(c) || "._-".contains(c)) && c <= '\u{ffef}' && !shows_nothing
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $kind:literal, $max:expr, $extra:literal) => {
        name!($(#[$doc])* $type, $kind, $max, $extra, segment);
    };
    ($(#[$doc:meta])* $type:ident, $kind:literal, $max:expr, $extra:literal, $check:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $type(std::sync::Arc<str>);

        impl PartialOrd for $type {
            fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
                Some(self.cmp(other))
            }
        }

        /// Like its text. Most look-ups find a clone of the same name, whose text need not be read.
        impl Ord for $type {
            fn cmp(&self, other: &Self) -> std::cmp::Ordering {
                match std::sync::Arc::ptr_eq(&self.0, &other.0) {
                    true => std::cmp::Ordering::Equal,
                    false => self.0.cmp(&other.0),
                }
            }
        }

        impl $type {
            /// Checks `value` and wraps it.
            pub fn new(value: impl AsRef<str>) -> Result<Self, NameError> {
                Self::check(value.as_ref())?;
                Ok(Self(value.as_ref().into()))
            }

            /// Checks `value`.
            pub fn check(value: &str) -> Result<(), NameError> {
                $check($kind, value, $max, $extra)
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

        /// Compares like its text.
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
                value.as_str().to_owned()
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
    Namespace, "namespace", MAX_NAME, "", word
);
name!(
    /// A job's name: one path segment.
    JobName, "job name", MAX_NAME, "", word
);
name!(
    /// One worker process under each of its jobs: `{address}@-@{unique}`. Assigned by a coordinator, never reused.
    InstanceId, "instance id", 300, "@:[]%"
);
name!(
    /// The address part of an instance id: stated by the worker, and only a label.
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
    /// A command that waits for the coordinator that can execute it.
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

    /// The address and the unique part; `None`: there is no separator. Ids are short, so that a plain loop is quicker
    /// than a string searcher.
    fn parts(&self) -> Option<(&str, &str)> {
        let separator = Self::SEPARATOR.as_bytes();
        let at = self.0.as_bytes().windows(separator.len()).position(|part| part == separator)?;
        Some((&self.0[..at], &self.0[at + separator.len()..]))
    }

    /// The address part; the whole id when it has no separator (a foreign instance).
    pub fn address(&self) -> &str {
        self.parts().map_or(&*self.0, |(address, _)| address)
    }

    /// The unique part, which names the worker's attachment.
    pub fn worker(&self) -> Option<WorkerId> {
        self.parts().and_then(|(_, unique)| WorkerId::new(unique).ok())
    }

    /// Whether its unique part names this worker. Cheap if it does not, since callers test thousands of ids.
    pub fn is_of(&self, worker: &WorkerId) -> bool {
        self.0.ends_with(worker.as_str()) && self.worker().as_ref() == Some(worker)
    }
}

/// Elastic-Job's task id, `{job}@-@{items}@-@READY@-@{instance}`, as its `TaskContext` writes and reads it. Elastic-Job
/// runs the items of an instance as one task and lists all of them; here each item has a run of its own, so there is
/// one.
pub fn task_id(job: &JobName, item: Item, instance: &InstanceId) -> String {
    const SEPARATOR: &str = InstanceId::SEPARATOR;
    format!("{job}{SEPARATOR}{item}{SEPARATOR}READY{SEPARATOR}{instance}")
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
    /// The largest value that is accepted: above it there would not be enough room to keep growing.
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
    /// A run's fencing token: it only grows per item, even if the job is removed and created again. 63 bits.
    Token, u64
);
number!(
    /// The version of `leader/election`: grows with every election of the job.
    Epoch, u64
);
number!(
    /// The version of `sharding`: grows with every plan and every withdrawal of a right.
    Generation, u64
);
number!(
    /// Identifies one of a worker's streams: the worker numbers them, and the number only grows.
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
        for bad in ["", ".", "..", "zookeeper", "a/b", "a b", "a\0", "a\n", "a:b", &"x".repeat(129)] {
            assert!(JobName::new(bad).is_err(), "{bad:?} was accepted");
        }
        for good in ["a", "word-count", "A.b_c-9", &"x".repeat(128)] {
            assert_eq!(JobName::new(good).unwrap().as_str(), good);
            assert_eq!(WorkerId::new(good).unwrap().as_str(), good);
        }
    }

    /// They used to be ASCII only, although Elastic-Job accepts any path segment.
    #[test]
    fn jobs_and_namespaces_are_named_in_any_script() {
        for good in
            ["清算", "été", "отчёт-1", "हिन्दी", "تقرير", "ภาษาไทย", "보고서", "Ünïcödé.9", &"é".repeat(127)]
        {
            assert_eq!(JobName::new(good).unwrap().as_str(), good);
            assert_eq!(Namespace::new(good).unwrap().as_str(), good);
            assert!(WorkerId::new(good).is_err() && ServerAddress::new(good).is_err(), "programs give these");
        }
        let long = JobName::new("清".repeat(86)).unwrap_err().to_string();
        assert!(
            long.contains("it is too long; use 1 to 128 letters") && long.contains("at most 255 bytes"),
            "{long}"
        );
        assert!(JobName::new("é".repeat(128)).is_err(), "256 bytes");
        // Only one of two spellings that look the same is valid, and the error for the other shows it.
        for (other, composed) in
            [("e\u{301}te\u{301}", "été"), ("\u{1112}\u{1161}\u{11ab}", "한"), ("\u{212b}", "Å")]
        {
            let refused = JobName::new(other).unwrap_err().to_string();
            assert!(
                refused.contains(&format!("not in Unicode's composed form (NFC); write it as {composed:?}")),
                "{refused}"
            );
        }
    }

    /// Characters that control a terminal, reverse the adjacent text, are invisible, or that ZooKeeper does not accept
    /// in a path.
    #[test]
    fn nothing_in_a_name_fools_a_terminal_or_its_reader() {
        for hidden in [
            "\u{1b}",
            "\u{7f}",
            "\u{85}",
            "\u{ad}",
            "\u{200b}",
            "\u{200d}",
            "\u{200e}",
            "\u{202e}",
            "\u{2066}",
            "\u{feff}",
            "\u{3164}",
            "\u{115f}",
            "\u{fe0f}",
            "\u{34f}",
            "\u{e000}",
            "\u{fffd}",
            "\u{2028}",
            "\u{3000}",
            "\u{20000}",
            "\u{e0100}",
            "\u{1f600}",
            "／",
        ] {
            let refused = JobName::new(format!("a清{hidden}b")).unwrap_err();
            assert_eq!(refused.reason, "it holds a character that a name may not have", "{hidden:?}");
            assert!(!refused.to_string().contains(hidden), "{refused} shows it as it is");
        }
        assert_eq!(JobName::new("\u{301}a").unwrap_err().reason, "it begins with a combining mark");
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
    fn a_task_has_the_id_that_elastic_job_gives_it() {
        let (job, instance) =
            (JobName::new("myJob").unwrap(), InstanceId::new("192.168.2.27@-@40288").unwrap());
        assert_eq!(task_id(&job, Item(0), &instance), "myJob@-@0@-@READY@-@192.168.2.27@-@40288");
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
