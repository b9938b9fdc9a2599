//! The summaries of test programs, as numbers.

use std::fmt;
use std::ops::AddAssign;
use std::process::Command;

use anyhow::{Result, bail};

use crate::command::{shown, watched};

/// How many tests passed, and how many did not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// Tests that reported that they cannot run here.
    pub(crate) not_run: u64,
    /// Those that failed, if their runner names each in its own line.
    pub(crate) names: Vec<String>,
    /// The beginning of what they said, if their runner prints that after a line with their name.
    pub(crate) said: Vec<String>,
    /// How many of the next lines belong to that.
    pub(crate) listening: usize,
}

/// That much of what a failed test said is shown again at the end.
const LINES_SAID: usize = 6;

impl Tally {
    /// Subtracts tests that are counted as passed but did not run.
    pub(crate) fn without(self, not_run: u64) -> Self {
        let passed = self.passed.saturating_sub(not_run);
        Self { passed, not_run: self.not_run + not_run, ..self }
    }

    /// Takes a line of a runner: the name of a failed test, once, or what such a test said.
    pub(crate) fn read(&mut self, line: &str) {
        let name = failed(line).filter(|name| !self.names.contains(name));
        // Surefire shows it after the name, Rust under a heading of its own.
        let begins = name.is_some() && line.contains(" <<< ") || is_heading(line);
        self.names.extend(name);
        let text = plain(line).trim_end().to_owned();
        if begins {
            self.listening = LINES_SAID;
        } else if self.listening > 0 && !text.is_empty() {
            self.listening -= 1;
            self.said.push(text);
        }
    }
}

/// Runs tests and adds up what `read` finds in their lines. A program that exits with an error without a failed test
/// has failed; a run without tests is not a success, unless only some were requested.
pub(crate) fn tallied(
    command: &mut Command,
    mark: &str,
    some: bool,
    read: impl Fn(&str) -> Option<Tally>,
) -> Result<Tally> {
    let mut tally = Tally::default();
    let status = watched(command, mark, &mut |line| {
        tally.read(line);
        tally += read(line).unwrap_or_default();
    })?;
    if tally == Tally::default() && !(some && status.success()) {
        bail!("{status}, and no test has run: {}", shown(command));
    }
    if !status.success() && tally.failed == 0 {
        println!("{mark}    {status}: {}", shown(command));
        tally.failed = 1;
    }
    Ok(tally)
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.not_run += other.not_run;
        self.said.extend(other.said);
        for name in other.names {
            if !self.names.contains(&name) {
                self.names.push(name);
            }
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.not_run > 0 { write!(f, ", {} not run", self.not_run) } else { Ok(()) }
    }
}

/// The last line of a Rust test program: `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
pub(crate) fn rust(line: &str) -> Option<Tally> {
    let line = plain(line);
    let (_, counts) = line.trim().strip_prefix("test result: ")?.split_once(". ")?;
    let counts = pairs(counts, ';');
    Some(Tally { passed: sum(&counts, &["passed"]), failed: sum(&counts, &["failed"]), ..Tally::default() })
}

/// How long a test took, in seconds: `test a::b ... ok <1.234s>`.
pub(crate) fn timed(line: &str) -> Option<(String, f64)> {
    let line = plain(line);
    let (test, time) = line.trim().strip_prefix("test ")?.rsplit_once(" <")?;
    let (name, _) = test.split_once(" ... ")?;
    Some((name.to_owned(), time.strip_suffix("s>")?.parse().ok()?))
}

/// A test that cannot run here reports it in its own line, and is counted as passed: which, and why.
pub(crate) fn not_run(line: &str) -> Option<&str> {
    line.trim().strip_prefix("NOT RUN: ")
}

/// The last line of pytest: `= 1 failed, 97 passed, 1 skipped in 1.20s =`, without the bars if it is quiet.
pub(crate) fn pytest(line: &str) -> Option<Tally> {
    let line = plain(line);
    let (counts, time) = line.trim().trim_matches('=').trim().rsplit_once(" in ")?;
    let seconds = time.split_whitespace().next()?.strip_suffix('s')?;
    seconds.parse::<f64>().ok()?;
    let counts = pairs(counts, ',');
    let failed = sum(&counts, &["failed", "error", "errors"]);
    let not_run = sum(&counts, &["skipped"]);
    Some(Tally { passed: sum(&counts, &["passed"]), failed, not_run, ..Tally::default() })
}

/// A line at the end of Node's own runner: `ℹ pass 231`, `ℹ fail 0`, and so on; each adds to the whole.
pub(crate) fn node(line: &str) -> Option<Tally> {
    let line = plain(line);
    let (what, count) = line.trim().strip_prefix("ℹ ")?.split_once(' ')?;
    let count = count.parse().ok()?;
    let none = Tally::default();
    Some(match what {
        "pass" => Tally { passed: count, ..none },
        "fail" | "cancelled" => Tally { failed: count, ..none },
        "skipped" | "todo" => Tally { not_run: count, ..none },
        _ => return None,
    })
}

/// A line at the end of Vitest: `Tests  1 failed | 14 passed | 1 skipped (16)`.
pub(crate) fn vitest(line: &str) -> Option<Tally> {
    let line = plain(line);
    let (counts, _) = line.trim().strip_prefix("Tests  ")?.rsplit_once(" (")?;
    let counts = pairs(counts, '|');
    let not_run = sum(&counts, &["skipped", "todo"]);
    let failed = sum(&counts, &["failed"]);
    Some(Tally { passed: sum(&counts, &["passed"]), failed, not_run, ..Tally::default() })
}

/// A line at the end of Playwright: `51 passed (3.1m)`, `1 failed`, and so on; each adds to the whole.
pub(crate) fn playwright(line: &str) -> Option<Tally> {
    let line = plain(line);
    let (count, what) = line.trim().split_once(' ')?;
    let count = count.parse().ok()?;
    let none = Tally::default();
    Some(match what.split_once(" (").map_or(what, |(what, _)| what) {
        "passed" => Tally { passed: count, ..none },
        // A test that passed only in a retry has failed.
        "failed" | "flaky" | "interrupted" => Tally { failed: count, ..none },
        "skipped" | "did not run" => Tally { not_run: count, ..none },
        _ => return None,
    })
}

/// The last line of `rosterd conformance`: `119 passed, 1 failed`.
pub(crate) fn conformance(line: &str) -> Option<Tally> {
    let counts = pairs(line.trim(), ',');
    let [(passed, "passed"), (failed, "failed")] = counts[..] else { return None };
    Some(Tally { passed, failed, ..Tally::default() })
}

/// How one test of Go ended: `--- PASS: TestX (0.00s)`, indented if it is part of another; each adds to the whole.
pub(crate) fn go(line: &str) -> Option<Tally> {
    let (how, _) = line.trim_start().strip_prefix("--- ")?.split_once(": ")?;
    let none = Tally::default();
    Some(match how {
        "PASS" => Tally { passed: 1, ..none },
        "FAIL" => Tally { failed: 1, ..none },
        "SKIP" => Tally { not_run: 1, ..none },
        _ => return None,
    })
}

/// A line at the end of a module's tests by Maven's Surefire: `Tests run: 165, Failures: 1, Errors: 2, Skipped: 3`; each adds to the
/// whole. Those of a class, which have a time, do not count.
pub(crate) fn surefire(line: &str) -> Option<Tally> {
    let line = plain(line);
    let (_, counts) = line.trim().split_once("Tests run: ")?;
    let mut parts = counts.split(", ");
    let run: u64 = parts.next()?.parse().ok()?;
    let mut count = |name: &str| parts.next()?.strip_prefix(name)?.parse::<u64>().ok();
    let failed = count("Failures: ")? + count("Errors: ")?;
    let not_run = count("Skipped: ")?;
    if parts.next().is_some() {
        return None;
    }
    Some(Tally { passed: run.saturating_sub(failed + not_run), failed, not_run, ..Tally::default() })
}

/// The name of a failed test, in a line of any of the runners.
pub(crate) fn failed(line: &str) -> Option<String> {
    let line = plain(line);
    let line = line.trim();
    let until = |text: &str, end: &str| Some(text.split_once(end)?.0.trim().to_owned());
    // Rust: `test a::b ... FAILED <1.234s>`.
    if let Some(test) = line.strip_prefix("test ") {
        return until(test, " ... FAILED");
    }
    // pytest: `FAILED tests/test_a.py::test_b - AssertionError: …`; an error outside of a test begins with ERROR.
    if let Some(test) = ["FAILED ", "ERROR "].iter().find_map(|word| line.strip_prefix(word)) {
        return test.contains("::").then(|| test.split(" - ").next().unwrap_or(test).to_owned());
    }
    // Go: `--- FAIL: TestX (0.00s)`.
    if let Some(test) = line.strip_prefix("--- FAIL: ") {
        return until(test, " (");
    }
    // Node's own runner: `✖ what it shows (12.3ms)`. The heading of its list has no time.
    if let Some(test) = line.strip_prefix("✖ ") {
        return test.ends_with("ms)").then(|| until(test, " (")).flatten();
    }
    // Playwright: `✘  12 specs/pages.spec.ts:30:3 › what it shows (1.2s)`.
    if let Some(test) = line.strip_prefix("✘ ") {
        let (number, test) = test.trim().split_once(' ')?;
        let (name, _) = test.rsplit_once(" (")?;
        return number.parse::<u64>().is_ok().then(|| name.to_owned());
    }
    // Surefire: `[ERROR] org.example.ATest.shows -- Time elapsed: 0.1 s <<< FAILURE!`.
    if let Some(test) = line.strip_prefix("[ERROR] ").filter(|_| line.contains(" <<< ")) {
        return until(test, " -- Time elapsed");
    }
    // The conformance kit, `FAIL  RUN-1      A Trigger …`, and Vitest, `FAIL  src/a.test.ts > what it shows`.
    let rule = line.strip_prefix("FAIL ")?.trim();
    Some(rule.split("  ").next().unwrap_or(rule).to_owned())
}

/// The heading above what a failed test of Rust said: `---- a::b stdout ----`.
fn is_heading(line: &str) -> bool {
    let line = plain(line);
    let line = line.trim();
    line.starts_with("---- ") && line.ends_with(" stdout ----")
}

fn pairs(text: &str, separator: char) -> Vec<(u64, &str)> {
    let pair = |text: &'_ str| -> Option<(u64, usize)> {
        let (count, _) = text.split_once(' ')?;
        Some((count.parse().ok()?, count.len() + 1))
    };
    let parts = text.split(separator).map(str::trim);
    parts.filter_map(|part| pair(part).map(|(count, at)| (count, part[at..].trim()))).collect()
}

fn sum(counts: &[(u64, &str)], names: &[&str]) -> u64 {
    counts.iter().filter(|(_, name)| names.contains(name)).map(|(count, _)| count).sum()
}

/// Without colors.
fn plain(line: &str) -> String {
    let mut parts = line.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or("", |(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(passed: u64, failed: u64) -> Option<Tally> {
        Some(of(passed, failed, 0))
    }

    fn of(passed: u64, failed: u64, not_run: u64) -> Tally {
        Tally { passed, failed, not_run, ..Tally::default() }
    }

    #[test]
    fn the_lines_of_vitest_are_numbers() {
        let said = "\u{1b}[2m      Tests \u{1b}[22m \u{1b}[1m\u{1b}[31m1 failed\u{1b}[39m\u{1b}[22m | 14 passed (15)";
        assert_eq!(vitest(said), tally(14, 1));
        assert_eq!(vitest("      Tests  2 passed | 1 skipped (3)"), Some(of(2, 0, 1)));
        assert_eq!(vitest(" Test Files  1 passed (1)"), None);
    }

    #[test]
    fn the_end_of_playwright_is_read_line_by_line() {
        let said = [
            "Running 57 tests using 2 workers",
            "  ✓  1 specs/a.spec.ts:3:1 › 2 failed (1.2s)",
            "  \u{1b}[31m1 failed\u{1b}[39m",
            "    specs/a.spec.ts:3:1 › it shows ────",
            "  1 flaky",
            "  2 did not run",
            "  1 skipped",
            "  51 passed (3.1m)",
        ];
        let mut tally = Tally::default();
        for line in said {
            tally += playwright(line).unwrap_or_default();
        }
        assert_eq!(tally, of(51, 2, 3));
    }

    #[test]
    fn each_runner_names_what_failed() {
        let said = [
            ("test a::b ... \u{1b}[31mFAILED\u{1b}[0m <1.2s>", "a::b"),
            ("FAILED tests/test_a.py::test_b[x] - AssertionError: 1", "tests/test_a.py::test_b[x]"),
            ("    --- FAIL: TestA/b (0.10s)", "TestA/b"),
            ("\u{1b}[31m✖ a run ends (1.2ms)\u{1b}[39m", "a run ends"),
            ("  ✘  12 specs/a.spec.ts:3:1 › a page (phone) (1.2s)", "specs/a.spec.ts:3:1 › a page (phone)"),
            ("[ERROR] io.example.ATest.shows -- Time elapsed: 0.1 s <<< FAILURE!", "io.example.ATest.shows"),
            ("FAIL  RUN-1      A Trigger starts", "RUN-1"),
            (" FAIL  src/a.test.ts > a > shows", "src/a.test.ts > a > shows"),
        ];
        for (line, name) in said {
            assert_eq!(failed(line).as_deref(), Some(name), "{line}");
        }
        let others = [
            "test a::b ... ok",
            "test result: FAILED. 1 passed; 1 failed",
            "✖ failing tests:",
            "FAIL",
            "[ERROR] Tests run: 3, Failures: 1, Errors: 0, Skipped: 0",
            "ERROR: something else",
        ];
        for line in others {
            assert_eq!(failed(line), None, "{line}");
        }
        let mut tally = of(1, 1, 0);
        tally.read(said[0].0);
        tally += Tally { names: vec!["a::b".into(), "c".into()], ..of(0, 1, 0) };
        assert_eq!(tally.names, ["a::b", "c"]);
    }

    #[test]
    fn the_end_tells_what_a_failed_test_said() {
        let said = [
            "[ERROR] org.example.ATest.shows -- Time elapsed: 0.1 s <<< FAILURE!",
            "expected: <a> but was: <b>\n",
            "---- a::b stdout ----",
            "\n",
            "panicked",
            "[ERROR] org.example.ATest.shows -- Time elapsed: 0.1 s <<< FAILURE!",
        ];
        let mut tally = Tally::default();
        said.iter().for_each(|line| tally.read(line));
        (0..20).for_each(|_| tally.read("at org.example"));
        assert_eq!(tally.said[..2], ["expected: <a> but was: <b>", "panicked"]);
        assert_eq!(tally.said.len(), 1 + LINES_SAID);
        assert_eq!(tally.names, ["org.example.ATest.shows"]);
    }

    #[test]
    fn what_did_not_run_is_not_counted_as_passed() {
        let said = rust("test result: ok. 3 passed; 1 failed; 2 ignored; 0 measured").unwrap();
        let why = "crash::a: dropping packets needs root";
        assert_eq!(not_run(&format!("NOT RUN: {why}\n")), Some(why));
        assert_eq!(not_run("test a ... ok"), None);
        let said = said.without(1);
        assert_eq!(said, of(2, 1, 1));
        assert_eq!(said.to_string(), "2 passed, 1 failed, 1 not run");
    }

    #[test]
    fn a_rust_summary_is_read_in_colours_too() {
        let ok =
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";
        assert_eq!(rust(ok), tally(3, 0));
        let red = "test result: \u{1b}[31mFAILED\u{1b}(B\u{1b}[m. 3 passed; 2 failed; 0 ignored";
        assert_eq!(rust(red), tally(3, 2));
        assert_eq!(rust("test a ... ok"), None);
    }

    #[test]
    fn the_time_of_a_test_is_read() {
        let line = "test a::b - should panic ... \u{1b}[32mok\u{1b}[0m <1.234s>\n";
        assert_eq!(timed(line), Some(("a::b - should panic".to_owned(), 1.234)));
        assert_eq!(timed("test a::b ... ok"), None);
    }

    #[test]
    fn a_summary_of_node_is_read_line_by_line() {
        let said = [
            "✔ a run ends (1.2ms)",
            "ℹ tests 9",
            "\u{1b}[34mℹ pass 7\u{1b}[39m",
            "ℹ fail 1",
            "ℹ cancelled 1",
        ];
        let mut tally = Tally::default();
        for line in said.into_iter().chain(["ℹ skipped 2", "ℹ duration_ms 46.6"]) {
            tally += node(line).unwrap_or_default();
        }
        assert_eq!(tally, of(7, 2, 2));
    }

    #[test]
    fn the_tests_of_go_are_counted_line_by_line() {
        let said = [
            "=== RUN   TestA/b",
            "--- FAIL: TestA (0.10s)",
            "    --- PASS: TestA/b (0.10s)",
            "    a.go:5: --- no",
            "FAIL",
        ];
        let mut tally = Tally::default();
        for line in said.into_iter().chain(["--- SKIP: TestC (0.00s)", "ok  \tpackage\t0.1s"]) {
            tally += go(line).unwrap_or_default();
        }
        assert_eq!(tally, of(1, 1, 1));
    }

    #[test]
    fn a_summary_of_surefire_is_read_and_its_classes_are_not() {
        let said = "[\u{1b}[1;31mERROR\u{1b}[m] Tests run: 9, Failures: 1, Errors: 2, Skipped: 1";
        assert_eq!(surefire(said), Some(of(5, 3, 1)));
        assert_eq!(surefire("[INFO] Tests run: 165, Failures: 0, Errors: 0, Skipped: 0"), tally(165, 0));
        let class = "[INFO] Tests run: 4, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.1 s -- in io.X";
        assert_eq!(surefire(class), None);
    }

    #[test]
    fn a_pytest_summary_is_read_loud_and_quiet() {
        assert_eq!(pytest("97 passed in 1.20s\n"), tally(97, 0));
        assert_eq!(pytest("==== 1 failed, 96 passed, 2 errors in 61.02s (0:01:01) ===="), tally(96, 3));
        assert_eq!(pytest("\u{1b}[31m\u{1b}[1m1 error\u{1b}[0m\u{1b}[31m in 0.10s\u{1b}[0m"), tally(0, 1));
        assert_eq!(pytest("no tests ran in 0.01s"), tally(0, 0));
        assert_eq!(pytest("slept 3 times in a row"), None);
    }
}
