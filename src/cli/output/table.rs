//! Tables: on a terminal as wide as that and no line is wrapped, elsewhere whole.

use std::collections::BTreeSet;

use anstyle::{AnsiColor, Style};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::look::Look;

/// Between columns.
const GAP: usize = 2;

/// Rows below their headings.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

/// A heading, and what may be done with the column where room is short.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    heading: &'static str,
    /// It is cut to this width at the least.
    least: Option<usize>,
    /// Only `-o wide` has it.
    wide: bool,
    /// A part of the row's name.
    named: bool,
}

pub(crate) const fn col(heading: &'static str) -> Column {
    Column { heading, least: None, wide: false, named: false }
}

impl Column {
    /// May be cut, to this width at the least.
    pub(crate) const fn cut(self, least: usize) -> Self {
        Self { least: Some(least), ..self }
    }

    /// Only in wide tables.
    pub(crate) const fn wide(self) -> Self {
        Self { wide: true, ..self }
    }

    /// A part of what `-o name` writes; parts are joined by slashes.
    pub(crate) const fn named(self) -> Self {
        Self { named: true, ..self }
    }
}

/// What stands in a row below a heading.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cell {
    text: String,
    /// What stands in a table that is not wide.
    short: Option<String>,
    style: Style,
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<u32> for Cell {
    fn from(number: u32) -> Self {
        number.to_string().into()
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Self {
        number.to_string().into()
    }
}

impl Cell {
    /// A text, and the shorter one that stands in a table that is not wide.
    pub(crate) fn short(text: String, short: String) -> Self {
        Self { text, short: Some(short), ..Self::default() }
    }

    /// The state that something is in, colored by whether it is good.
    pub(crate) fn state(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { style: style(&text), text, short: None }
    }

    fn shown(&self, wide: bool) -> String {
        let text = self.short.as_ref().filter(|_| !wide).unwrap_or(&self.text);
        // A line break within a cell would look like another row.
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
    }
}

/// The color of a state, by the first word of its text.
pub(crate) fn style(state: &str) -> Style {
    let word = state.split([' ', ',', ':']).next().unwrap_or_default();
    match word {
        "succeeded" | "enabled" | "serving" | "ready" | "completed" | "run" | "delivered" | "ok"
        | "attached" | "TASK_FINISHED" => AnsiColor::Green.on_default(),
        "failed" | "crashed" | "timed_out" | "missed" | "no_worker" | "suspended" | "dead" | "refused"
        | "expired" | "critical" | "error" | "bad" => AnsiColor::Red.on_default(),
        "paused" | "disabled" | "cancelled" | "misfired" | "draining" | "pending" | "partly" | "waiting"
        | "warning" | "warn" | "skipped" | "silenced" => AnsiColor::Yellow.on_default(),
        "running" | "started" => AnsiColor::Cyan.on_default(),
        _ => Style::new(),
    }
}

/// A text in a style, where there are colors.
pub(crate) fn painted(text: &str, style: Style, color: bool) -> String {
    if color { format!("{style}{text}{style:#}") } else { text.to_owned() }
}

impl Table {
    pub(crate) fn new(columns: impl Into<Vec<Column>>) -> Self {
        Self { columns: columns.into(), rows: Vec::new() }
    }

    pub(crate) fn of<const N: usize>(columns: [Column; N], rows: impl Iterator<Item = [Cell; N]>) -> Self {
        Self { columns: columns.into(), rows: rows.map(Vec::from).collect() }
    }

    /// A row; it has a cell for each column.
    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// What `-o name` writes: a name a line.
    pub(crate) fn names(&self) -> String {
        let name = |row: &Vec<Cell>| {
            let parts = self.columns.iter().zip(row).filter(|(column, _)| column.named);
            parts.map(|(_, cell)| cell.text.as_str()).collect::<Vec<_>>().join("/") + "\n"
        };
        self.rows.iter().map(name).collect()
    }

    /// As lines. One that is wide has all columns, and nothing is cut.
    pub(crate) fn text(&self, wide: bool, look: &Look) -> String {
        let mut shown: Vec<usize> =
            (0..self.columns.len()).filter(|at| wide || !self.columns[*at].wide).collect();
        let cells: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(|cell| cell.shown(wide)).collect()).collect();
        let widest = |at: usize| {
            let below = cells.iter().filter_map(|row| row.get(at)).map(|text| text.width()).max();
            below.unwrap_or_default().max(self.columns[at].heading.width())
        };
        let mut widths: Vec<usize> = (0..self.columns.len()).map(widest).collect();
        if let Some(room) = look.width.filter(|_| !wide) {
            self.fit(room, &mut shown, &mut widths);
        }
        let headings =
            shown.iter().map(|at| padded(&cut(self.columns[*at].heading, widths[*at]), widths[*at]));
        let mut out = headings.collect::<Vec<_>>().join("  ").trim_end().to_owned();
        out = painted(&out, Style::new().bold(), look.color) + "\n";
        for (row, texts) in self.rows.iter().zip(&cells) {
            let mut line = String::new();
            for (n, at) in shown.iter().enumerate() {
                let text = texts.get(*at).map(String::as_str).unwrap_or_default();
                let last = n + 1 == shown.len();
                let text = cut(text, widths[*at]);
                let fill = if last { 0 } else { widths[*at] - text.width() + GAP };
                let style = row.get(*at).map(|cell| cell.style).unwrap_or_default();
                line += &painted(&text, style, look.color && style != Style::new());
                line += &" ".repeat(fill);
            }
            out += line.trim_end();
            out.push('\n');
        }
        out
    }

    /// Cuts what may be cut, the widest first; what still finds no room is left out, the last first.
    fn fit(&self, room: usize, shown: &mut Vec<usize>, widths: &mut [usize]) {
        let total = |shown: &[usize], widths: &[usize]| {
            shown.iter().map(|at| widths[*at]).sum::<usize>() + GAP * shown.len().saturating_sub(1)
        };
        loop {
            while total(shown, widths) > room {
                let loose = |at: &&usize| self.columns[**at].least.is_some_and(|least| widths[**at] > least);
                let Some(at) = shown.iter().filter(loose).max_by_key(|at| widths[**at]).copied() else {
                    break;
                };
                widths[at] -= 1;
            }
            if total(shown, widths) <= room || shown.len() <= 1 {
                break;
            }
            let last = shown.iter().rposition(|at| !self.columns[*at].named).unwrap_or(shown.len() - 1);
            shown.remove(last);
        }
        // One column that is wider than the terminal.
        if let [at] = shown.as_slice() {
            widths[*at] = widths[*at].min(room);
        }
    }
}

fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

/// At most so many columns of a text; that it is cut is seen.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut room = width.saturating_sub(1);
    let fits = |c: &char| {
        let wide = c.width().unwrap_or_default();
        let fits = wide <= room;
        room = room.saturating_sub(wide);
        fits
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

/// How far the ids of instances are shown: so far that none of them looks like another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ids {
    characters: usize,
}

impl Ids {
    /// Of a shorter rest nothing is cut.
    const LEAST: usize = 6;

    pub(crate) fn of<'a>(ids: impl Iterator<Item = &'a str>) -> Self {
        let all: BTreeSet<&str> = ids.collect();
        let longest = all.iter().map(|id| id.len()).max().unwrap_or_default();
        let tells_apart = |characters: &usize| {
            let short: BTreeSet<String> =
                all.iter().map(|id| Self { characters: *characters }.text(id)).collect();
            short.len() == all.len()
        };
        Self { characters: (Self::LEAST..longest).find(tells_apart).unwrap_or(longest.max(Self::LEAST)) }
    }

    /// `10.0.0.7@-@3f0c1e` of `10.0.0.7@-@3f0c1e0de4…`. A beginning that is one instance's alone names it.
    pub(crate) fn text(self, id: &str) -> String {
        let unique = id.find("@-@").map_or(0, |at| at + "@-@".len());
        let (address, rest) = id.split_at(unique);
        if rest.chars().count() <= self.characters + 2 {
            return id.to_owned();
        }
        address.chars().chain(rest.chars().take(self.characters)).collect()
    }

    pub(crate) fn cell(self, id: &str) -> Cell {
        Cell::short(id.to_owned(), self.text(id))
    }
}

#[cfg(test)]
mod tests {
    use rosterd_domain::time::Time;

    use super::*;

    fn look(width: Option<usize>, color: bool) -> Look {
        Look { width, color, zone: None, now: Time(0) }
    }

    fn table() -> Table {
        let columns = [
            col("JOB").named().cut(8),
            col("ITEM").named(),
            col("STATE"),
            col("WHY").cut(10),
            col("ID").wide(),
        ];
        let row = [
            Cell::from("a-job-with-a-long-name"),
            7_u32.into(),
            Cell::state("failed"),
            "because of\nthis and that and something else".into(),
            "x1".into(),
        ];
        Table::of(columns, [row].into_iter())
    }

    #[test]
    fn a_program_gets_all_of_a_row_on_one_line() {
        assert_eq!(
            table().text(false, &look(None, false)),
            "JOB                     ITEM  STATE   WHY\n\
             a-job-with-a-long-name  7     failed  because of this and that and something else\n"
        );
    }

    #[test]
    fn a_narrow_terminal_cuts_and_never_wraps() {
        for width in [40, 48, 60, 80] {
            let text = table().text(false, &look(Some(width), false));
            assert!(text.lines().all(|line| line.width() <= width), "{width}:\n{text}");
            assert_eq!(text.lines().count(), 2);
        }
        assert_eq!(
            table().text(false, &look(Some(48), false)),
            "JOB               ITEM  STATE   WHY\n\
             a-job-with-a-lo…  7     failed  because of this…\n"
        );
    }

    #[test]
    fn what_finds_no_room_is_left_out_from_the_end_and_names_stay() {
        let columns = [col("JOB").named(), col("A"), col("B")];
        let table =
            Table::of(columns, [["j".repeat(30).into(), "aaaaaa".into(), "bbbbbbbbbb".into()]].into_iter());
        let text = table.text(false, &look(Some(40), false));
        assert!(text.starts_with("JOB") && text.contains("  A\n"), "{text}");
    }

    #[test]
    fn a_wide_table_has_all_columns_whole() {
        let text = table().text(true, &look(Some(40), false));
        assert!(text.contains("ID\n") && text.contains("something else  x1\n"), "{text}");
    }

    #[test]
    fn names_are_whole_and_joined() {
        assert_eq!(table().names(), "a-job-with-a-long-name/7\n");
    }

    #[test]
    fn states_have_colors_where_there_are_some() {
        let text = table().text(false, &look(None, true));
        assert!(text.contains("\u{1b}[31mfailed\u{1b}[0m"), "{text:?}");
        assert!(!table().text(false, &look(None, false)).contains('\u{1b}'));
    }

    #[test]
    fn wide_characters_count_twice() {
        assert_eq!(cut("清算任务", 5), "清算…");
        let table = Table::of(
            [col("JOB"), col("N")],
            [["清算".into(), 1_u32.into()], ["ab".into(), 2_u32.into()]].into_iter(),
        );
        assert_eq!(table.text(false, &look(None, false)), "JOB   N\n清算  1\nab    2\n");
    }

    #[test]
    fn ids_are_as_long_as_they_must_be_to_tell_them_apart() {
        let (a, b) = ("10.0.0.7@-@3f0c1e0de4aa", "10.0.0.7@-@3f0c1e0ff4aa");
        assert_eq!(Ids::of([a].into_iter()).text(a), "10.0.0.7@-@3f0c1e");
        assert_eq!(Ids::of([a, b].into_iter()).text(b), "10.0.0.7@-@3f0c1e0f");
        assert_eq!(Ids::of(["10.0.0.7@-@w-1"].into_iter()).text("10.0.0.7@-@w-1"), "10.0.0.7@-@w-1");
        // A name is not cut within a character.
        assert_eq!(
            Ids::of(["清@-@算算算算算算算算算"].into_iter()).text("清@-@算算算算算算算算算"),
            "清@-@算算算算算算"
        );
    }
}
