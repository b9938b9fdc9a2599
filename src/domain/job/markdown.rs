//! The guide's page on job fields, generated from the tables. Called by the test that compares the committed page.

use std::fmt::Write;

use super::fields::{FIELDS, FieldInfo, POLICY_FIELDS, Use};

const HEAD: &str = "\
# Job fields

<!-- Generated from the tables in src/domain/job/fields.rs; the test there says how to write it again. -->

Elastic-Job's job files apply unchanged: YAML or JSON, one job or several (documents, a list, or Spring Boot's
`elasticjob.jobs`), with the names of 1.x, 2.x or 3.x, in camel or kebab case. What Elastic-Job has no field for
goes under one key, `rosterd`. All defects of a file are reported at once.

*Used* fields are obeyed. *Kept* fields are not, and are not lost: those that Elastic-Job 3.x has in its `config`
node stay there, the others stay in `rosterd/policy` under `elastic_job`. A job with a *refused* field is refused,
and so is one with a field that is not listed here.

A file that turns `monitorExecution` off must not turn `failover` or `misfire` on. Elastic-Job's default of
`misfire` is true: where a file does not name it, it is then false. In a node that Elastic-Job wrote, both are read
as false, which is how Elastic-Job treats failover.

An absent `timeZone` is UTC. If workers of Elastic-Job share the namespace, set it: they take each JVM's zone.

## Elastic-Job's fields

| field | generations | here | default | meaning |
| --- | --- | --- | --- | --- |
";

const POLICY_HEAD: &str = "
## Under `rosterd`

Times are whole milliseconds, as the names say.

| field | allowed | default | meaning |
| --- | --- | --- | --- |
";

/// The page.
pub fn fields_markdown() -> String {
    let mut page = HEAD.to_owned();
    for field in FIELDS {
        let since: Vec<_> = field.since.iter().map(|generation| generation.as_str()).collect();
        let default = code(field.default);
        let (here, why, since) = (here(field), field.why, since.join(", "));
        let _ = writeln!(page, "| `{}` | {since} | {here} | {default} | {why} |", field.name);
    }
    page.push_str(POLICY_HEAD);
    for field in POLICY_FIELDS {
        let _ =
            writeln!(page, "| `{}` | {} | {} | {} |", field.path, field.allowed, field.default, field.what);
    }
    page
}

fn here(field: &FieldInfo) -> String {
    match field.use_ {
        Use::Used("") => "used".to_owned(),
        Use::Used(name) => format!("used as `{name}`"),
        Use::Kept if field.in_config => "kept in `config`".to_owned(),
        Use::Kept => "kept".to_owned(),
        Use::Refused => "refused".to_owned(),
    }
}

fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{text}`") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/src/job-fields.md");

    #[test]
    fn the_guide_has_the_page_made_from_the_table() {
        let committed = std::fs::read_to_string(PAGE).unwrap_or_default();
        let bless = "cargo test -p rosterd-domain write_the_guides_page -- --ignored";
        assert!(committed == fields_markdown(), "job-fields.md is out of date; run: {bless}");
    }

    #[test]
    #[ignore = "writes docs/guide/src/job-fields.md"]
    fn write_the_guides_page() {
        std::fs::create_dir_all(std::path::Path::new(PAGE).parent().unwrap()).unwrap();
        std::fs::write(PAGE, fields_markdown()).unwrap();
    }
}
