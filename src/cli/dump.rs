//! `rosterd dump`: a job's whole tree, as the registry holds it.

use clap::Args;
use serde_json::{Map, Value, json};

use super::failure::Result;
use super::options::OfJob;
use super::output::form::Form;
use super::server::{ALL, Client, Server};
use rosterd_wire::proto::v1;

#[derive(Debug, Args)]
pub(crate) struct Dump {
    #[command(flatten)]
    job: OfJob,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    server: Server,
}

impl Dump {
    pub(crate) async fn run(self) -> Result {
        let question = v1::DumpJobRequest { job: self.job.name(), ..Default::default() };
        let call = |mut c: Client, q| async move { c.dump_job(q).await };
        let (take, turn) = (
            |a: v1::DumpJobResponse| (a.nodes.into_iter().collect(), a.next_page_token),
            |q: &mut v1::DumpJobRequest, token| q.page_token = token,
        );
        let mut nodes: Vec<(String, v1::DumpNode)> =
            self.server.admin().await?.pages(question, call, take, turn, ALL).await?;
        nodes.sort_unstable_by(|(a, _), (b, _)| order(a).cmp(&order(b)));
        let json = || {
            let entry = |(path, node): &(String, v1::DumpNode)| (path.clone(), node_json(node));
            Value::Object(nodes.iter().map(entry).collect::<Map<_, _>>())
        };
        let text = || {
            let line = |(path, node): &(String, v1::DumpNode)| {
                let mark = if node.ephemeral { " (ephemeral)" } else { "" };
                let gap = if node.data.is_empty() { "" } else { "  " };
                format!("{path}{mark}{gap}{}\n", String::from_utf8_lossy(&node.data).replace('\n', "\\n"))
            };
            nodes.iter().map(line).collect()
        };
        self.form.show(json, text)
    }
}

/// Data that is not text is a list of bytes.
fn node_json(node: &v1::DumpNode) -> Value {
    let data = match std::str::from_utf8(&node.data) {
        Ok(text) => Value::from(text),
        Err(_) => node.data.to_vec().into(),
    };
    json!({ "data": data, "ephemeral": node.ephemeral })
}

/// Segments in order, numbers by value.
fn order(path: &str) -> Vec<(u64, &str)> {
    path.split('/').map(|segment| (segment.parse().unwrap_or(u64::MAX), segment)).collect()
}
