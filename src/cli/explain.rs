//! `rosterd explain`: why an item is where it is, and what it waits for.

use clap::Args;
use serde_json::{Value, json};

use super::failure::{Code, Failure, Result};
use super::options::job_item;
use super::output::form::Form;
use super::output::text::wrapped;
use super::server::Server;
use rosterd_wire::proto::v1;

/// Of a line. Wider texts are hard to read.
const COLUMNS: usize = 80;

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// Which item: JOB/ITEM
    #[arg(value_name = "JOB/ITEM", value_parser = job_item)]
    item: (String, u32),
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    server: Server,
}

impl Explain {
    pub(crate) async fn run(self) -> Result {
        let (job, item) = self.item;
        let question = v1::ExplainItemRequest { job: job.clone(), item };
        let answer = self.server.ask(question, |mut c, q| async move { c.explain_item(q).await }).await?;
        if answer.sentences.is_empty() {
            return Err(Failure::failed(
                Code::Empty,
                "the coordinator said nothing: it may be of another version",
            ));
        }
        let json = || {
            json!({
                "job": job,
                "item": item,
                "sentences": answer.sentences.iter().map(sentence).collect::<Value>(),
            })
        };
        self.form.show(json, || text(&job, item, &answer.sentences))
    }
}

fn sentence(sentence: &v1::ExplainedSentence) -> Value {
    let link = |link: &v1::SentenceLink| json!({ "text": link.text, "href": link.href });
    json!({ "part": sentence.part, "text": sentence.text, "links": sentence.links.iter().map(link).collect::<Value>() })
}

/// The sentences below one another, each part beside its name.
fn text(job: &str, item: u32, sentences: &[v1::ExplainedSentence]) -> String {
    let wide = sentences.iter().map(|sentence| sentence.part.len()).max().unwrap_or_default() + 2;
    let mut out = format!("{job}/{item}\n");
    let mut before = "";
    for sentence in sentences {
        let mut name = if sentence.part == before { "" } else { &sentence.part };
        for line in wrapped(&sentence.text, COLUMNS - 2 - wide) {
            out.push_str(format!("  {name:wide$}{line}").trim_end());
            out.push('\n');
            name = "";
        }
        before = &sentence.part;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explanation_fits_a_terminal() {
        let sentence = |part: &str, text: &str| v1::ExplainedSentence {
            part: part.into(),
            text: text.into(),
            links: Vec::new(),
        };
        let sentences = [
            sentence(
                "owner",
                "10.0.0.2@-@w2 owns item 0 of report; its worker is attached to coordinator c1.",
            ),
            sentence("candidates", "10.0.0.1@-@w1 may own items, too, and has 2-3."),
            sentence("candidates", "10.0.0.3@-@w3 gets no items: its worker is leaving."),
        ];
        let expected = "\
report/0
  owner       10.0.0.2@-@w2 owns item 0 of report; its worker is attached to
              coordinator c1.
  candidates  10.0.0.1@-@w1 may own items, too, and has 2-3.
              10.0.0.3@-@w3 gets no items: its worker is leaving.
";
        assert_eq!(text("report", 0, &sentences), expected);
        assert!(expected.lines().all(|line| line.chars().count() <= COLUMNS));
    }
}
