//! The page, as HTML: plain tables, no script, refreshed by the browser. All text from a worker or a job file goes
//! through [`Text`], which escapes it.

use std::fmt::{self, Write as _};

use base64::Engine as _;
use rosterd_domain::id::Namespace;
use rosterd_domain::item::Counters;
use sha2::{Digest as _, Sha256};

use rosterd_coordinator::handle::{Health, InstanceRow, JobRow, JobStatus};

const STYLE: &str = "\
:root{color-scheme:light dark}body{font:14px/1.5 system-ui,sans-serif;margin:2rem;max-width:90rem}\
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}table{border-collapse:collapse;width:100%}\
th,td{text-align:left;padding:.3rem .8rem .3rem 0;border-bottom:1px solid #8884;vertical-align:top}\
td.n,th.n{text-align:right}code{font-family:ui-monospace,monospace}.bad{color:#c33}.dim{opacity:.7}";

/// What the page may load: its own style, and nothing else.
pub(super) fn policy() -> String {
    let digest = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(STYLE));
    let rest = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    format!("default-src 'none'; style-src 'sha256-{digest}'; {rest}")
}

pub(super) fn health_text(health: Health) -> &'static str {
    match health {
        Health::ClockOff => "clock off: nothing fires until this machine's clock is set right",
        Health::Suspended => "suspended: the store does not answer",
        other => other.as_str(),
    }
}

/// A text in a page.
struct Text<'a>(&'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c if c.is_control() => f.write_char('\u{fffd}')?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

pub(super) fn render(
    namespace: &Namespace,
    health: Health,
    jobs: &[JobRow],
    instances: &[InstanceRow],
) -> String {
    let mut out = String::with_capacity(4096 + 512 * (jobs.len() + instances.len()));
    // Writing to a string does not fail.
    let _ = write(&mut out, namespace, health, jobs, instances);
    out
}

fn write(
    out: &mut String,
    namespace: &Namespace,
    health: Health,
    jobs: &[JobRow],
    instances: &[InstanceRow],
) -> fmt::Result {
    let namespace = Text(namespace.as_str());
    write!(
        out,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" \
         content=\"5\"><meta name=\"viewport\" content=\"width=device-width\"><title>{namespace} · rosterd\
         </title><style>{STYLE}</style></head><body><h1>rosterd · {namespace}</h1><p>This coordinator is \
         <b>{}</b>.</p>",
        health_text(health)
    )?;
    write!(
        out,
        "<h2>Jobs ({})</h2><table><thead><tr><th>Job<th>Schedule<th>Status<th class=n>Items\
         <th class=n>Instances<th class=n>Running<th>Next fire<th>So far</tr></thead><tbody>",
        jobs.len()
    )?;
    for job in jobs {
        write_job(out, job)?;
    }
    write!(
        out,
        "</tbody></table><h2>Instances ({})</h2><table><thead><tr><th>Instance<th>Job<th>Coordinator\
         <th class=n>Items<th class=n>Slots<th>Client<th>Labels</tr></thead><tbody>",
        instances.len()
    )?;
    for instance in instances {
        write_instance(out, instance)?;
    }
    out.write_str("</tbody></table></body></html>\n")
}

fn write_job(out: &mut String, job: &JobRow) -> fmt::Result {
    let bad = if matches!(job.status, JobStatus::NoWorker | JobStatus::Damaged) { " class=bad" } else { "" };
    write!(out, "<tr><td><b>{}</b>", Text(job.name.as_str()))?;
    if !job.description.is_empty() {
        write!(out, "<br><span class=dim>{}</span>", Text(&job.description))?;
    }
    match &job.cron {
        Some(cron) => write!(out, "<td><code>{}</code> {}", Text(cron), Text(&job.time_zone))?,
        None => out.write_str("<td class=dim>when triggered")?,
    }
    write!(
        out,
        "<td{bad}>{}<td class=n>{}<td class=n>{}<td class=n>{}<td>",
        job.status.as_str(),
        job.items,
        job.instances,
        job.running
    )?;
    match job.next_fire {
        Some(next) => write!(out, "{next}")?,
        None => out.write_str("–")?,
    }
    write!(out, "<td>")?;
    write_counters(out, &job.counters)?;
    out.write_str("</tr>")
}

fn write_counters(out: &mut String, counters: &Counters) -> fmt::Result {
    write!(out, "{} runs", counters.fired)?;
    let missed: u64 = counters.missed.values().sum();
    let rest = [
        ("succeeded", counters.succeeded),
        ("failed", counters.failed),
        ("cancelled", counters.cancelled),
        ("crashed", counters.crashed),
        ("timed out", counters.timed_out),
        ("misfired", counters.misfired),
        ("skipped", counters.skipped),
        ("missed", missed),
    ];
    for (name, count) in rest.into_iter().filter(|(_, count)| *count > 0) {
        write!(out, ", {count} {name}")?;
    }
    Ok(())
}

fn write_instance(out: &mut String, row: &InstanceRow) -> fmt::Result {
    write!(
        out,
        "<tr><td><code>{}</code>{}<td>{}<td>{}<td class=n>{}<td class=n>{}<td>{}<td>",
        Text(row.instance.as_str()),
        if row.enabled { "" } else { " <span class=bad>disabled</span>" },
        Text(row.job.as_str()),
        Text(&row.host),
        row.items,
        row.slots,
        Text(&row.client)
    )?;
    for (key, value) in &row.labels {
        write!(out, "{}={} ", Text(key), Text(value))?;
    }
    out.write_str("</tr>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_inert() {
        assert_eq!(
            Text("<img src=x onerror='a&b'>\"\u{1}").to_string().matches(['<', '>', '\'', '"']).count(),
            0
        );
    }

    #[test]
    fn the_policy_names_the_style_and_no_script() {
        let policy = policy();
        assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
        assert!(!policy.contains("unsafe"));
    }
}
