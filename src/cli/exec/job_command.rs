//! The program that a run starts: the one of our own command line, or the job's, as Elastic-Job's script executor
//! starts it: split at spaces, quotes keep words together, and the sharding context is the last argument, as JSON.
//! No shell takes part.

use std::ffi::OsString;

use rosterd_client::{Failure, Run};
use rosterd_domain::job::COMMAND_LINE;
use serde::Serialize;

/// What runs start.
#[derive(Debug)]
pub(super) enum Program {
    /// Given after `--`.
    Given(Vec<OsString>),
    /// The job's own: whoever may change the job chooses it.
    OfJob,
}

impl Program {
    /// The program of this run and its arguments.
    pub(super) fn of(&self, run: &Run) -> Result<Vec<OsString>, Failure> {
        match self {
            Self::Given(program) => Ok(program.clone()),
            Self::OfJob => of_job(run).map_err(|why| Failure::fatal(format!("job {}: {why}", run.job()))),
        }
    }
}

fn of_job(run: &Run) -> Result<Vec<OsString>, String> {
    let missing = "it has no command line: set scriptCommandLine (3.x: the property script.command.line), or give rosterd \
         exec a program after --";
    let line = run.prop(COMMAND_LINE).ok_or(missing)?;
    let mut program: Vec<OsString> = split(line)?.into_iter().map(OsString::from).collect();
    if program.is_empty() {
        return Err(missing.into());
    }
    program.push(Context::of(run).json().into());
    Ok(program)
}

/// Elastic-Job's `ShardingContext`, in the order of its fields.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Context<'a> {
    job_name: &'a str,
    task_id: String,
    sharding_total_count: u32,
    job_parameter: &'a str,
    sharding_item: u32,
    /// Left out where the item has none, as there.
    #[serde(skip_serializing_if = "str::is_empty")]
    sharding_parameter: &'a str,
}

impl<'a> Context<'a> {
    fn of(run: &'a Run) -> Self {
        let (job, item, instance) = (run.job(), run.item(), run.instance_id());
        Self {
            job_name: job,
            task_id: format!("{job}@-@{item}@-@READY@-@{instance}"),
            sharding_total_count: run.total(),
            job_parameter: run.job_parameter(),
            sharding_item: item,
            sharding_parameter: run.item_parameter(),
        }
    }

    fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// The words of a command line. Quotes of either kind keep spaces, the backslash means itself: so does Elastic-Job's
/// (commons-exec). A quote that does not end is refused, without the line, which may hold a secret.
fn split(line: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(letter),
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, _) if letter.is_ascii_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(letter),
        }
    }
    if let Some(quote) = quote {
        return Err(format!("its command line has a {quote} without an end: add the second one"));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_elastic_job_does() {
        let splits = |line: &str| split(line).unwrap();
        assert_eq!(splits("  /opt/nightly.sh  --all "), ["/opt/nightly.sh", "--all"]);
        assert_eq!(splits(r#"sh -c "echo 'a  b'" '' x"y z"'"'"#), ["sh", "-c", "echo 'a  b'", "", "xy z\""]);
        assert_eq!(splits(r"a\ b $HOME *"), ["a\\", "b", "$HOME", "*"]);
        assert!(splits(" ").is_empty());
        assert!(
            split("sh -c 'echo s3cret")
                .is_err_and(|why| why.contains("a ' without") && !why.contains("s3cret"))
        );
    }

    #[test]
    fn the_context_is_elastic_jobs() {
        let context = Context {
            job_name: "words",
            task_id: "words@-@0@-@READY@-@here@-@w-1".into(),
            sharding_total_count: 3,
            job_parameter: "all",
            sharding_item: 0,
            sharding_parameter: "Beijing",
        };
        assert_eq!(
            context.json(),
            r#"{"jobName":"words","taskId":"words@-@0@-@READY@-@here@-@w-1","shardingTotalCount":3,"jobParameter":"all","shardingItem":0,"shardingParameter":"Beijing"}"#
        );
        assert!(!Context { sharding_parameter: "", ..context }.json().contains("shardingParameter"));
    }
}
