//! What REST shows about reasons: explanations, ownership, runs and scheduled times with their results.

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
    /// In order: its owner, the rule, the other candidates, its last move, what it waits for, when it runs next.
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

/// A part of a sentence that has a page.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Link {
    /// The text, exactly as it is in the sentence.
    pub(crate) text: String,
    /// A page of the console, relative to the console's base path.
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

/// A scheduled time of an item of some job, and its result.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FireOfJob {
    pub(crate) job_name: String,
    #[serde(flatten)]
    pub(crate) fire: Fire,
    /// The token of its last run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<u64>,
    /// Why it was not run, in a sentence; absent if it was run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
}

/// The ownership of an item by one instance.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Ownership {
    pub(crate) item: u32,
    pub(crate) instance_id: String,
    pub(crate) server_ip: String,
    pub(crate) from: String,
    /// When it lost the item; `null` while it is the owner.
    pub(crate) to: Option<String>,
    /// Why it got the item.
    pub(crate) reason: String,
    /// Why it lost the item; `null` while it is the owner.
    pub(crate) end_reason: Option<String>,
    /// The generation of the assignment that made it the owner.
    pub(crate) generation: u64,
}

pub(crate) fn explanation(job: &JobName, item: Item, sentences: Vec<explain::Sentence>) -> Explanation {
    let link = |link: explain::Link| Link { text: link.text, href: link.href };
    let sentence = |sentence: explain::Sentence| Sentence {
        part: sentence.part.as_str(),
        text: sentence.text,
        links: sentence.links.into_iter().map(link).collect(),
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
