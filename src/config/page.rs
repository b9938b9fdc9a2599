//! The guide's page of the configuration, written from the table of fields.

use std::fmt::Write as _;

use super::field::FIELDS;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/guide/src/configuration.md");

fn markdown() -> String {
    let mut out = String::from(
        "# Configuration\n\n<!-- Generated from the table in src/config/field.rs: cargo xtask docs -->\n\n\
         A coordinator takes its configuration from a TOML file (`rosterd serve --config FILE`), from the environment, and from\n\
         flags, the later before the earlier. Each field of the file is a variable, in capitals after `ROSTERD_`, and `--set\n\
         FIELD=VALUE`; some have a flag of their own. `rosterd serve --print-config` shows all of them as they would hold and where\n\
         each comes from, `--check` says what is wrong, all at once. Durations are written as `90s` or `1h30m`, sizes as `64KiB`.\n\n\
         Alarms are tables of the file alone: [Alarms](alarms.md#configure).\n\n\
         | field | default | meaning |\n| --- | --- | --- |\n",
    );
    for field in FIELDS {
        let default = if field.default.is_empty() { String::new() } else { format!("`{}`", field.default) };
        let what = field.what.replace('|', "\\|").replace('<', "&lt;");
        let _ = writeln!(out, "| `{}` | {default} | {what} |", field.name);
    }
    out
}

#[test]
fn the_guides_page_is_that_of_the_table() {
    let committed = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(committed == markdown(), "docs/guide/src/configuration.md is out of date; run: cargo xtask docs");
}

#[test]
#[ignore = "writes docs/guide/src/configuration.md"]
fn write_the_guides_page() {
    std::fs::write(PAGE, markdown()).unwrap();
}
