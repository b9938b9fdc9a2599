//! Alarm requests, independent of the protocol: rights within the jobs, limits, the audit. Called by `rest` and `grpc`.

use std::sync::Arc;
use std::time::Duration;

use rosterd_alarms::desk::{Delivery, Desk, View};
use rosterd_alarms::kind::AlarmKind;
use rosterd_alarms::silence::{MOST, Silence};
use rosterd_domain::id::JobName;
use rosterd_domain::time::Time;
use rosterd_runtime::clock::SharedClock;
use rosterd_session::code::{Code, Refusal};

use crate::access::Principal;
use crate::audit::AuditLine;
use crate::history::History;

/// Longest silence.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);
/// Longest comment, and longest id.
const COMMENT: usize = 1024;
const ID: usize = 64;

/// The dependencies.
pub struct Alarms {
    /// The alarms and their receivers.
    pub desk: Arc<Desk>,
    /// The history, which has the audit.
    pub history: Arc<dyn History>,
    /// The clock.
    pub clock: SharedClock,
}

/// A silence as requested.
#[derive(Debug, Clone, Default)]
pub struct SilenceRequest {
    /// Alarms of this kind; `None`: of all.
    pub alarm: Option<String>,
    /// Of this job, or of those with this prefix if it ends with `*`.
    pub job: Option<String>,
    /// Until this time.
    pub until: Option<Time>,
    /// Or for this long.
    pub duration: Option<Duration>,
    /// Why.
    pub comment: String,
}

impl Alarms {
    /// The current alarms.
    pub fn view(&self) -> View {
        self.desk.view()
    }

    /// Creates or replaces a silence. Answered once it is in force durably.
    pub async fn silence(
        &self,
        who: Option<&Principal>,
        id: String,
        request: SilenceRequest,
    ) -> Result<Silence, Refusal> {
        let made = self.try_silence(who, id, request).await;
        let text = |silence: &Silence| {
            let of = silence.alarm.map_or("every kind", AlarmKind::as_str);
            let job = silence.job.as_deref().unwrap_or("every job");
            format!("silence {} of {of} of {job} until {}: {}", silence.id, silence.until, silence.comment)
        };
        let outcome = made.as_ref().map(text);
        let job = made.as_ref().ok().and_then(|silence| JobName::new(silence.job.as_deref()?).ok());
        self.audit(who, "silence", job.as_ref(), outcome).await;
        made
    }

    async fn try_silence(
        &self,
        who: Option<&Principal>,
        id: String,
        request: SilenceRequest,
    ) -> Result<Silence, Refusal> {
        let silence = self.make(who, id, request)?;
        may(who, silence.job.as_deref())?;
        // It may replace somebody else's.
        if let Some(before) = self.desk.silence_named(&silence.id) {
            may(who, before.job.as_deref())?;
        }
        if self.desk.silence(silence.clone()).await {
            return Ok(silence);
        }
        let what = format!("there are {MOST} silences: take some away first");
        Err(Refusal::new(Code::Overloaded, what))
    }

    fn make(&self, who: Option<&Principal>, id: String, request: SilenceRequest) -> Result<Silence, Refusal> {
        let invalid =
            |field: &str, what: String| Refusal::new(Code::RequestInvalid, format!("{field}: {what}"));
        let good = |id: &str| id.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
        if id.is_empty() || id.len() > ID || !good(&id) {
            let what = format!("{:?} is not a name: use 1 to {ID} ASCII letters, digits or . _ -", cut(&id));
            return Err(invalid("id", what));
        }
        let alarm = request.alarm.map(|name| {
            let known = || AlarmKind::ALL.map(AlarmKind::as_str).join(", ");
            AlarmKind::named(&name)
                .ok_or_else(|| invalid("alarm", format!("{:?} is not one of {}", cut(&name), known())))
        });
        let now = self.clock.wall();
        let until = match (request.until, request.duration) {
            (Some(until), None) => until,
            (None, Some(duration)) => now.plus(duration),
            _ => return Err(invalid("until", "give it, or a duration, and not both".to_owned())),
        };
        if until <= now || until.since(now) > LONGEST {
            return Err(invalid("until", format!("{until} has passed, or is more than a year away")));
        }
        let job = match request.job {
            Some(job) if job.is_empty() => None,
            Some(job) => {
                let bare = job.strip_suffix('*').unwrap_or(&job);
                if !bare.is_empty() {
                    JobName::new(bare)
                        .map_err(|error| Refusal::new(Code::NameInvalid, format!("job: {error}")))?;
                }
                Some(job)
            }
            None => None,
        };
        let mut comment = request.comment;
        if comment.len() > COMMENT || comment.chars().any(char::is_control) {
            comment = comment.chars().filter(|c| !c.is_control()).take(COMMENT / 4).collect();
        }
        let by = who.map_or_else(|| "anonymous".to_owned(), |who| who.name.to_string());
        Ok(Silence { id, alarm: alarm.transpose()?, job, until, comment, by })
    }

    /// Removes a silence.
    pub async fn unsilence(&self, who: Option<&Principal>, id: &str) -> Result<(), Refusal> {
        let known = self.desk.silence_named(id);
        let job = known.as_ref().and_then(|silence| JobName::new(silence.job.as_deref()?).ok());
        let done = match known {
            None => {
                let what = format!("there is no silence {:?} on this coordinator", cut(id));
                Err(Refusal::new(Code::SilenceUnknown, what))
            }
            Some(silence) => may(who, silence.job.as_deref()),
        };
        if done.is_ok() {
            self.desk.unsilence(id).await;
        }
        let outcome = done.as_ref().map(|()| format!("silence {id} taken away"));
        self.audit(who, "unsilence", job.as_ref(), outcome).await;
        done
    }

    /// Sends a test message to one receiver, or to all that are configured. The audit has a row for each.
    pub async fn test(
        &self,
        who: Option<&Principal>,
        receiver: Option<&str>,
    ) -> Result<Vec<Delivery>, Refusal> {
        let what =
            receiver.map_or_else(|| "all receivers".to_owned(), |name| format!("receiver {}", cut(name)));
        self.desk.record_request(None, &format!("test of {what} of alarms"), who.map(|who| &*who.name));
        let done = self.desk.test(receiver).await.ok_or_else(|| {
            let name = receiver.map(cut).unwrap_or_default();
            Refusal::new(Code::ReceiverUnknown, format!("there is no receiver {name:?} on this coordinator"))
        });
        self.history.settle().await;
        AuditLine::new("test_alarms", []).of(what).log(who, done.as_ref().err());
        done
    }

    /// A caller that gets the answer finds the row in the audit.
    async fn audit(
        &self,
        who: Option<&Principal>,
        action: &'static str,
        job: Option<&JobName>,
        outcome: Result<String, &Refusal>,
    ) {
        let asked = AuditLine::new(action, job);
        match outcome {
            Ok(what) => {
                self.desk.record_request(job, &what, who.map(|who| &*who.name));
                self.history.settle().await;
                asked.of(what).log(who, None);
            }
            Err(refusal) => asked.log(who, Some(refusal)),
        }
    }
}

/// A credential for some jobs may silence one of these, by its whole name: not all jobs, and not coordinators.
fn may(who: Option<&Principal>, job: Option<&str>) -> Result<(), Refusal> {
    let Some(who) = who.filter(|who| !who.jobs.are_all()) else { return Ok(()) };
    let own = job.and_then(|job| JobName::new(job).ok()).is_some_and(|job| who.jobs.have(&job));
    if own {
        return Ok(());
    }
    let what = format!(
        "the credential {:?} is only for {}: name one of these jobs, without *, or use another credential",
        who.name, who.jobs
    );
    Err(Refusal::new(Code::PermissionDenied, what))
}

fn cut(text: &str) -> String {
    text.chars().take(64).collect()
}
