//! What was found: one row per figure with minimum, median and maximum over the runs, and a verdict.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::machine::Floor;

/// One number of one figure, over all runs.
struct Row {
    figure: String,
    settings: String,
    unit: &'static str,
    target: Option<f64>,
    values: Vec<f64>,
    floors: Vec<Floor>,
}

#[derive(Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
}

impl Report {
    /// Takes one run's number. `target`: it should not be above that.
    pub(crate) fn add(
        &mut self,
        figure: &str,
        settings: &str,
        unit: &'static str,
        target: Option<f64>,
        value: f64,
        floor: &Floor,
    ) {
        let known = self.rows.iter_mut().find(|row| row.figure == figure && row.settings == settings);
        match known {
            Some(row) => {
                row.values.push(value);
                row.floors.push(*floor);
                // A target that depends on the disk is that of the median disk.
                row.target = row.target.and_then(|old| target.map(|new| old.max(new)));
            }
            None => self.rows.push(Row {
                figure: figure.into(),
                settings: settings.into(),
                unit,
                target,
                values: vec![value],
                floors: vec![*floor],
            }),
        }
    }

    pub(crate) fn print(&self) {
        let wide = self.rows.iter().map(|row| row.settings.chars().count()).max().unwrap_or(0);
        println!(
            "\n{:34} {:wide$} {:>9} {:>9} {:>9}  {:>9}",
            "figure", "settings", "min", "median", "max", "target"
        );
        for row in &self.rows {
            let (min, median, max) = spread(&row.values);
            let target = row.target.map_or(String::new(), number);
            println!(
                "{:34} {:wide$} {:>9} {:>9} {:>9}  {:>9} {} {}",
                row.figure,
                row.settings,
                number(min),
                number(median),
                number(max),
                target,
                row.unit,
                row.verdict()
            );
        }
        println!();
        for row in &self.rows {
            println!("{}", row.json());
        }
    }
}

impl Row {
    fn verdict(&self) -> &'static str {
        let (_, median, _) = spread(&self.values);
        match self.target {
            Some(target) if median <= target => "PASS",
            Some(_) => "MISS",
            None => "",
        }
    }

    fn json(&self) -> Value {
        let (min, median, max) = spread(&self.values);
        let floors = |of: fn(&Floor) -> f64| spread(&self.floors.iter().map(of).collect::<Vec<_>>()).1;
        let floor: BTreeMap<&str, f64> = [
            ("durable_write_p50_ms", floors(|floor| floor.write.0)),
            ("durable_write_p99_ms", floors(|floor| floor.write.1)),
            ("round_trip_p50_ms", floors(|floor| floor.trip.0)),
            ("load", floors(|floor| floor.load)),
        ]
        .into();
        json!({
            "figure": self.figure, "settings": self.settings, "unit": self.unit, "runs": self.values.len(),
            "min": min, "median": median, "max": max, "target": self.target, "verdict": self.verdict(),
            "beside": floor,
        })
    }
}

/// Minimum, median, maximum.
fn spread(values: &[f64]) -> (f64, f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |place: usize| sorted.get(place).copied().unwrap_or(f64::NAN);
    (at(0), at(sorted.len() / 2), at(sorted.len().saturating_sub(1)))
}

fn number(value: f64) -> String {
    if value.abs() >= 100.0 || value == value.trunc() { format!("{value:.0}") } else { format!("{value:.2}") }
}
