//! The report: one row per figure with minimum, median and maximum over the runs, and whether the target was met.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::machine::{Floor, Raw};

/// Settings other than the defaults, by name.
pub(crate) type Set<'a> = &'a [(&'a str, &'a str)];

/// One number of one figure, over all runs.
struct Row {
    /// Its name for `--only`.
    only: &'static str,
    /// The non-default settings.
    set: String,
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
    only: &'static str,
    set: String,
}

impl Report {
    /// Starts a figure, with the defaults until [`Self::sets`] is called.
    pub(crate) fn begin(&mut self, only: &'static str) {
        (self.only, self.set) = (only, String::new());
    }

    /// Sets the non-default settings of the following numbers.
    pub(crate) fn sets(&mut self, set: Set<'_>) {
        let pairs: Vec<String> = set.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let set = pairs.join(" ");
        if set != self.set {
            println!("  set: {}", if set.is_empty() { "nothing, all defaults" } else { &set });
            self.set = set;
        }
    }

    /// Adds one run's number. `target`: it should not be above that.
    pub(crate) fn add(
        &mut self,
        figure: &str,
        settings: &str,
        unit: &'static str,
        target: Option<f64>,
        value: f64,
        floor: &Floor,
    ) {
        let only = self.only;
        let same = |row: &&mut Row| row.only == only && row.figure == figure && row.settings == settings;
        let known = self.rows.iter_mut().find(same);
        match known {
            Some(row) => {
                row.values.push(value);
                row.floors.push(*floor);
                // A target that depends on the disk uses the median of the disk.
                row.target = row.target.and_then(|old| target.map(|new| old.max(new)));
            }
            None => self.rows.push(Row {
                only,
                set: self.set.clone(),
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
            "\n{:38} {:wide$} {:>9} {:>9} {:>9}  {:>9} | {:>8} {:>8} {:>5} {:>8} |",
            "figure", "settings", "min", "median", "max", "target", "write ms", "trip ms", "load", "raw /s"
        );
        for row in &self.rows {
            let (min, median, max) = spread(&row.values);
            let target = row.target.map_or(String::new(), number);
            let beside = row.beside();
            println!(
                "{:38} {:wide$} {:>9} {:>9} {:>9}  {:>9} | {:>8.2} {:>8.3} {:>5.1} {:>8} | {} {}",
                row.figure,
                row.settings,
                number(min),
                number(median),
                number(max),
                target,
                beside.write.0,
                beside.trip.0,
                beside.load,
                beside.raw.map_or(String::new(), |raw| number(raw.rate)),
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

    /// The median of each accompanying number.
    fn beside(&self) -> Floor {
        let median = |of: fn(&Floor) -> f64| spread(&self.floors.iter().map(of).collect::<Vec<_>>()).1;
        let raws: Vec<Raw> = self.floors.iter().filter_map(|floor| floor.raw).collect();
        let raw = |of: fn(&Raw) -> f64| spread(&raws.iter().map(of).collect::<Vec<_>>()).1;
        Floor {
            write: (median(|floor| floor.write.0), median(|floor| floor.write.1)),
            trip: (median(|floor| floor.trip.0), median(|floor| floor.trip.1)),
            load: median(|floor| floor.load),
            raw: (!raws.is_empty()).then(|| Raw { rate: raw(|raw| raw.rate), cpu: raw(|raw| raw.cpu) }),
        }
    }

    fn json(&self) -> Value {
        let (min, median, max) = spread(&self.values);
        let beside = self.beside();
        let mut floor: BTreeMap<&str, f64> = [
            ("durable_write_p50_ms", beside.write.0),
            ("durable_write_p99_ms", beside.write.1),
            ("round_trip_p50_ms", beside.trip.0),
            ("round_trip_p99_ms", beside.trip.1),
            ("load", beside.load),
        ]
        .into();
        if let Some(raw) = beside.raw {
            floor.extend([
                ("zookeeper_raw_writes_a_second", raw.rate),
                ("zookeeper_cpu_us_a_raw_write", raw.cpu),
            ]);
        }
        json!({
            "only": self.only, "set": self.set,
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
