//! The text that a scraper reads: heads of metrics that have no series yet, and the format of before OpenMetrics.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::Described;

const END: &str = "# EOF\n";

/// The encoder leaves out what has no series. A metric that is there from the start can be found, and has a name in a query.
pub(super) fn with_heads(mut page: String, described: &[Described]) -> String {
    let there: BTreeSet<String> = page
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .map(|(name, _)| name.to_owned())
        .collect();
    if page.ends_with(END) {
        page.truncate(page.len() - END.len());
    }
    for Described { name, kind, help, .. } in described.iter().filter(|one| !there.contains(&one.name)) {
        let _ = writeln!(page, "# HELP {name} {help}.\n# TYPE {name} {}", kind.as_str());
        if let Some(unit) = ["seconds", "bytes"].iter().find(|unit| name.ends_with(&format!("_{unit}"))) {
            let _ = writeln!(page, "# UNIT {name} {unit}");
        }
    }
    page + END
}

/// OpenMetrics in Prometheus' older text format (0.0.4): there a counter's family has `_total`, too, and an info is a gauge.
pub fn as_text_format(page: &str) -> String {
    let kinds: BTreeMap<&str, &str> =
        page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    let lines = page.lines().filter(|line| !line.starts_with("# UNIT") && *line != "# EOF");
    lines
        .map(|line| {
            let mut words = line.splitn(4, ' ');
            let (Some("#"), Some(what), Some(name), Some(said)) =
                (words.next(), words.next(), words.next(), words.next())
            else {
                return format!("{line}\n");
            };
            match (kinds.get(name), what) {
                (Some(&"counter"), _) => format!("# {what} {name}_total {said}\n"),
                (Some(&"info"), "TYPE") => format!("# TYPE {name}_info gauge\n"),
                (Some(&"info"), _) => format!("# {what} {name}_info {said}\n"),
                _ => format!("{line}\n"),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::{MetricType, Metrics};
    use super::*;

    #[test]
    fn every_metric_has_its_head_from_the_start() {
        let page = Metrics::new().encode();
        for Described { name, kind, help, .. } in Metrics::own() {
            let head = format!("# HELP {name} {help}.\n# TYPE {name} {}\n", kind.as_str());
            assert_eq!(page.matches(&head).count(), 1, "{head}\n{page}");
        }
        assert!(page.ends_with("\n# EOF\n") && page.matches("# EOF").count() == 1);
        let unit = "# TYPE http_server_request_duration_seconds histogram\n# UNIT http_server_request_duration_seconds seconds\n";
        assert!(page.contains(unit), "{page}");
    }

    #[test]
    fn the_older_format_has_the_same_series_under_the_names_that_it_gives_families() {
        let metrics = Metrics::new();
        metrics.runs.get_or_create(&[("outcome", "succeeded")]).inc();
        let page = metrics.encode();
        let older = as_text_format(&page);
        let series = |page: &str| -> Vec<String> {
            page.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
        };
        assert_eq!(series(&older), series(&page));
        assert!(!older.contains("# EOF") && !older.contains("# UNIT"), "{older}");
        for Described { name, kind, .. } in Metrics::own() {
            let name = if matches!(kind, MetricType::Counter) { format!("{name}_total") } else { name };
            assert!(older.contains(&format!("# TYPE {name} {}\n", kind.as_str())), "{name}: {older}");
        }
        let info = "# HELP build what runs.\n# TYPE build info\nbuild_info{version=\"1\"} 1\n# EOF\n";
        let gauge = "# HELP build_info what runs.\n# TYPE build_info gauge\nbuild_info{version=\"1\"} 1\n";
        assert_eq!(as_text_format(info), gauge);
    }
}
