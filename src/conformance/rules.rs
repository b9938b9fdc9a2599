//! The rules that are judged here: the rows of the specification that scripts name.

use std::sync::LazyLock;

/// The page that numbers them.
const PAGE: &str = include_str!("../../clients/spec/machine.md");

/// A rule of the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Its number there.
    pub id: &'static str,
    /// What it says, in Markdown.
    pub text: &'static str,
}

/// In the order of the specification.
pub fn rules() -> &'static [Rule] {
    static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
        let scripts = crate::scripts();
        all().filter(|rule| scripts.contains_key(rule.id)).collect()
    });
    &RULES
}

/// Every rule of the page, judged here or not.
pub(crate) fn all() -> impl Iterator<Item = Rule> {
    PAGE.lines().filter_map(|line| {
        let mut cells = line.trim().strip_prefix('|')?.split('|').map(str::trim);
        let (id, text) = (cells.next()?, cells.next()?);
        let (part, number) = id.split_once('-')?;
        let is_rule = !part.is_empty()
            && part.chars().all(|c| c.is_ascii_uppercase())
            && !number.is_empty()
            && number.chars().all(|c| c.is_ascii_digit());
        is_rule.then_some(Rule { id, text })
    })
}
