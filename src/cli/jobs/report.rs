//! What a change did: shown to people, and the exit code that says so.

use serde_json::json;

use crate::cli::failure::{Failure, Result};
use crate::cli::json;
use crate::cli::output::form::Form;
use rosterd_wire::proto::v1;

/// Shows what a change did.
pub(crate) fn report(form: Form, changes: &[v1::JobChange]) -> Result {
    for change in changes {
        for warning in &change.warnings {
            eprintln!("rosterd: {}: warning: {warning}", change.job);
        }
    }
    form.show(|| json!({ "changes": json::changes(changes) }), || lines(changes))?;
    // Of several jobs some may have been changed all the same.
    let refused = |change: &&v1::JobChange| change.effect() == v1::JobEffect::Refused;
    match changes.iter().find(refused) {
        None => Ok(()),
        Some(first) => {
            let count = changes.iter().filter(refused).count();
            let what = format!("{count} of {} jobs refused and stay as they were", changes.len());
            Err(Failure::refused(first.code.as_str(), what))
        }
    }
}

/// The same as text.
pub(super) fn lines(changes: &[v1::JobChange]) -> String {
    let of = |change: &v1::JobChange| -> String {
        let about = if change.job.is_empty() { String::new() } else { format!("{}: ", change.job) };
        let about = match change.effect() {
            v1::JobEffect::Refused => format!("{about}refused: {}: ", change.code),
            _ => about,
        };
        if change.fields.is_empty() {
            return change.lines.iter().map(|line| format!("{about}{line}\n")).collect();
        }
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "(none)".into());
        let field = |field: &v1::FieldChange| {
            let (old, new) = (value(&field.old_value), value(&field.new_value));
            format!("{about}{}: {old} -> {new}\n", field.field)
        };
        change.fields.iter().map(field).collect()
    };
    changes.iter().map(of).collect()
}
