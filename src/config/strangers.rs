//! Variables of the environment that begin as ours do and name no field: a slip, which would otherwise do nothing in silence,
//! or somebody else's. Those of the clients, of programs that `rosterd exec` starts and of the command line are known, and
//! so is what Kubernetes puts there for a service of this name.

use super::field::{FIELDS, FORMER};

const PREFIX: &str = "ROSTERD_";

/// Those of others, without their beginning. A test holds them against what is read and set.
const OTHERS: [&str; 22] = [
    "ATTEMPT",
    "CA",
    "CERT",
    "CONFIG",
    "CONTEXT",
    "CREDENTIAL",
    "CREDENTIAL_FILE",
    "FIRE_TIME",
    "INSECURE_CREDENTIAL",
    "INSTANCE",
    "ITEM",
    "ITEM_PARAMETER",
    "JOB",
    "JOB_PARAMETER",
    "KEY",
    "MUTANTS",
    "PROPS",
    "SERVER",
    "SOURCE",
    "TASK_ID",
    "TOKEN",
    "TOTAL",
];

/// Whether it sets a field.
pub(super) fn is_field(variable: &str) -> bool {
    let is = |name: &str| variable == super::field::variable(name);
    FIELDS.iter().any(|field| is(field.name)) || FORMER.iter().any(|(former, _)| is(former))
}

/// Whether it should be one: it begins so, and is nobody else's.
pub(super) fn is_stranger(variable: &str) -> bool {
    let Some(rest) = variable.strip_prefix(PREFIX) else { return false };
    !is_field(variable) && !OTHERS.contains(&rest) && !is_of_kubernetes(rest)
}

/// `ROSTERD_SERVICE_HOST`, `ROSTERD_PORT_7700_TCP_ADDR`, and of services whose names go on behind ours.
fn is_of_kubernetes(rest: &str) -> bool {
    let mut words = rest.split('_').peekable();
    while let Some(word) = words.next() {
        match word {
            "PORT" => return true,
            "SERVICE" if words.peek() == Some(&"HOST") => return true,
            _ => {}
        }
    }
    false
}

/// The warning about one; `near`: the name of the most similar field.
pub(super) fn warning(variable: &str, near: Option<&str>) -> String {
    let variable: String = variable.chars().take(100).collect();
    match near {
        Some(near) => format!(
            "{variable} in the environment sets nothing: did you mean {}?",
            super::field::variable(near)
        ),
        None => format!("{variable} in the environment sets nothing: --print-config lists the fields"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use super::*;

    #[test]
    fn what_is_not_ours_is_told_from_a_slip() {
        for known in [
            "ROSTERD_LEASE",
            "ROSTERD_SERVER_RETENTION",
            "ROSTERD_CREDENTIAL",
            "ROSTERD_ITEM",
            "ROSTERD_SERVICE_HOST",
            "ROSTERD_SERVICE_PORT_GRPC",
            "ROSTERD_PORT",
            "ROSTERD_PORT_7700_TCP_ADDR",
            "ROSTERD_HEADLESS_SERVICE_HOST",
            "ROSTERD_HEADLESS_PORT",
            "PATH",
            "ROSTERDX",
        ] {
            assert!(!is_stranger(known), "{known}");
        }
        for slip in ["ROSTERD_LEASES", "ROSTERD_DATADIR", "ROSTERD_lease", "ROSTERD_SERVICE", "ROSTERD_"] {
            assert!(is_stranger(slip), "{slip}");
        }
    }

    /// The command line, what it starts, and the clients: none of their variables is warned of.
    #[test]
    fn what_others_read_and_set_is_known() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let clients = ["rust", "python/rosterd", "typescript/src", "go", "java/src/main"];
        let places = ["src/cli", "src/conformance", "src/runtime"].map(PathBuf::from);
        let places = places.into_iter().chain(clients.map(|client| Path::new("clients").join(client)));
        let mut named = BTreeSet::new();
        places.for_each(|place| collect(&root.join(place), &mut named));
        assert!(named.contains("ROSTERD_ITEM") && named.contains("ROSTERD_CA"), "{named:?}");
        named.remove(PREFIX);
        let strangers: Vec<_> = named.iter().filter(|name| is_stranger(name)).collect();
        assert!(strangers.is_empty(), "add them to the list above: {strangers:?}");
    }

    fn collect(path: &Path, named: &mut BTreeSet<String>) {
        let Ok(inner) = std::fs::read_dir(path) else {
            let Ok(text) = std::fs::read_to_string(path) else { return };
            let is_test = |name: &str| name.contains("test") || name.ends_with(".md");
            if is_test(&path.file_name().unwrap_or_default().to_string_lossy()) {
                return;
            }
            for (at, _) in text.match_indices(PREFIX) {
                let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
                named.insert(text[at..].chars().take_while(|c| is_name(*c)).collect());
            }
            return;
        };
        let skipped = ["tests", "test", "node_modules", "target", "build"];
        for inner in inner.flatten().filter(|inner| !skipped.iter().any(|name| inner.file_name() == *name)) {
            collect(&inner.path(), named);
        }
    }
}
