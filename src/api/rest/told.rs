//! What REST tells of why: explanations, who owned what, runs and scheduled times with what became of them.

use rosterd_domain::explain;
use rosterd_domain::id::{Item, JobName};
use rosterd_history::{FireRow, OwnerRow};
use serde::Serialize;
use utoipa::ToSchema;

use super::shape::{Fire, Run, fire, time};

/// Why an item is where it is, and what it waits for.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Explanation {
    pub(crate) job_name: String,
    pub(crate) item: u32,
    /// In their order: whose it is, by which rule, who else was there, when it moved, what it waits for, when it runs next.
    pub(crate) sentences: Vec<Sentence>,
}

/// One sentence.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Sentence {
    /// `owner`, `rule`, `candidates`, `moved`, `waits` or `next`.
    pub(crate) part: &'static str,
    pub(crate) text: String,
    pub(crate) links: Vec<Link>,
}

/// Words of a sentence that have a page.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Link {
    /// They stand so in the sentence.
    pub(crate) text: String,
    /// A page of the console, relative to where that is served.
    pub(crate) href: String,
}

/// A run with all runs of its fire.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunOfFire {
    pub(crate) run: Run,
    /// In the order of their tokens; the run is among them.
    pub(crate) attempts: Vec<Run>,
}

/// A scheduled time for an item of some job, and its result.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FireOfJob {
    pub(crate) job_name: String,
    #[serde(flatten)]
    pub(crate) fire: Fire,
    /// Of its last run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<u64>,
    /// Why it was not run, in a sentence; absent: it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
}

/// An item in the hands of one instance.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Ownership {
    pub(crate) item: u32,
    pub(crate) instance_id: String,
    pub(crate) server_ip: String,
    pub(crate) from: String,
    /// `null`: it owns it still.
    pub(crate) to: Option<String>,
    /// Why it was given it.
    pub(crate) reason: String,
    /// Why it lost it; `null`: it owns it still.
    pub(crate) end_reason: Option<String>,
    /// Of the assignment that gave it.
    pub(crate) generation: u64,
}

pub(crate) fn explanation(job: &JobName, item: Item, sentences: Vec<explain::Sentence>) -> Explanation {
    let link = |link: explain::Link| Link { text: link.text, href: link.href };
    let sentence = |said: explain::Sentence| Sentence {
        part: said.part.as_str(),
        text: said.text,
        links: said.links.into_iter().map(link).collect(),
    };
    Explanation {
        job_name: job.to_string(),
        item: item.0,
        sentences: sentences.into_iter().map(sentence).collect(),
    }
}

pub(crate) fn fire_of_job(job: &JobName, row: FireRow) -> FireOfJob {
    let (text, token) = (row.why_not(), row.run.as_ref().map(|run| run.token.0));
    FireOfJob { job_name: job.to_string(), token, text, fire: fire(row) }
}

pub(crate) fn ownership(row: OwnerRow) -> Ownership {
    Ownership {
        item: row.item.0,
        server_ip: row.instance.address().to_string(),
        instance_id: row.instance.to_string(),
        from: time(row.from),
        to: row.to.map(time),
        reason: row.reason,
        end_reason: row.to.map(|_| row.end_reason),
        generation: row.generation,
    }
}
