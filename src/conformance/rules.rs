//! The rules that are judged here: numbers and sentences of `clients/spec/machine.md`.

/// A rule of the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Its number there.
    pub id: &'static str,
    /// What it says.
    pub text: &'static str,
}

const fn rule(id: &'static str, text: &'static str) -> Rule {
    Rule { id, text }
}

/// In the order of the specification.
pub const RULES: &[Rule] = &[
    rule("LINK-1", "One stream at a time: the old one is closed before the next is opened"),
    rule("LINK-3", "Hello is the first frame of every stream; nothing follows it before Welcome"),
    rule("LINK-4", "stream_number is 1 or more, and larger in each later Hello of the process"),
    rule(
        "LINK-5",
        "Hello gives back worker_id and resume_key of the last Welcome; both are empty before any",
    ),
    rule(
        "LINK-6",
        "Hello names every run in flight: in user code, between attempts, or reported and not acknowledged",
    ),
    rule(
        "LINK-7",
        "Hello names jobs that were ever registered (jobs); once there is an identity, the others that were asked for (jobs_asked)",
    ),
    rule("LINK-8", "Hello says slots, address, labels, namespace, client, sent_at, holds_triggers"),
    rule(
        "LINK-9",
        "Welcome with another worker_id than Hello's: every run in flight is told to stop as fenced, none is reported, reports are dropped",
    ),
    rule(
        "LINK-10",
        "After each Welcome every job is registered again and every unacknowledged report is sent again",
    ),
    rule(
        "LINK-11",
        "The first loss of a stream or attempt since the start or since the last acknowledged heartbeat is followed at once by an attempt at the next coordinator",
    ),
    rule(
        "LINK-12",
        "Each further loss waits min(0.2 s x 2^(n-1), longest pause), cut by chance by up to a half",
    ),
    rule("LINK-13", "A Welcome alone does not begin the pauses anew, an acknowledged heartbeat does"),
    rule(
        "LINK-14",
        "Coordinators are tried in turn: those given, then those that the last Welcome named, each once",
    ),
    rule("LINK-15", "An attempt to connect is given up after the connect timeout (3 s)"),
    rule("LINK-16", "A Hello without Welcome is given up after 3 s"),
    rule("LINK-17", "A stream without any frame for two thirds of the lease is lost"),
    rule("LINK-18", "So is one that talks and does not renew the lease to its end"),
    rule(
        "LINK-19",
        "A final status (UNAUTHENTICATED, PERMISSION_DENIED, INVALID_ARGUMENT, NOT_FOUND, UNIMPLEMENTED) from every coordinator in a row, before any Welcome, ends the worker as rejected",
    ),
    rule("LINK-20", "Any other loss before a Welcome is tried again, and the count of LINK-19 begins anew"),
    rule("LINK-21", "After a Welcome every status is tried again"),
    rule("LINK-22", "Unknown frames, fields and enum values are ignored"),
    rule("LINK-23", "Before Welcome every other frame is ignored; so is a second Welcome"),
    rule("LINK-24", "The end of a stream without an error, GOAWAY, and a reset are losses like any other"),
    rule("LINK-25", "Frames are read at all times, whatever user code does"),
    rule(
        "LINK-27",
        "A stream that is dropped at any message boundary is resumed under the same worker_id; no run starts twice, no report is lost",
    ),
    rule("LINK-28", "Runs go on while there is no stream"),
    rule("LINK-29", "The credential goes out on every stream as `authorization: Bearer ...`"),
    rule(
        "LINK-30",
        "A credential goes only to hosts that the user named, unless the user gave a CA; another address of Welcome is passed over with one warning",
    ),
    rule(
        "LEASE-1",
        "The lease counts from when the last acknowledged heartbeat was sent, at first the Hello",
    ),
    rule("LEASE-2", "At sent + 0.995 lease - min(stop_budget, lease / 4) every run is told to stop"),
    rule(
        "LEASE-3",
        "A heartbeat goes out every interval, counted from the Hello, numbered from 1 on each stream",
    ),
    rule("LEASE-4", "Each names every run in flight, and the lease that is counted with"),
    rule(
        "LEASE-6",
        "An acknowledgement of a heartbeat that was not sent on this stream, or was acknowledged, proves nothing",
    ),
    rule("LEASE-7", "A late acknowledgement of an earlier heartbeat never shortens the lease"),
    rule(
        "LEASE-8",
        "Registered with a shorter lease or interval counts at once and for the whole worker; a longer one does nothing",
    ),
    rule(
        "LEASE-9",
        "The shortest is kept over reconnects under the same worker_id, and forgotten with another",
    ),
    rule(
        "LEASE-10",
        "After standing still, an acknowledgement that waited in the socket counts before the timers",
    ),
    rule("LEASE-11", "Any other frame counts after them: nothing starts under a lease that has ended"),
    rule(
        "LEASE-14",
        "User code that found the lease over by its own look is reported ABORTED, also if an acknowledgement came meanwhile",
    ),
    rule(
        "LEASE-15",
        "Heartbeats go out whatever user code does: a handler that sleeps or spins for three leases keeps its lease",
    ),
    rule("LEASE-16", "They go on while the worker leaves"),
    rule("LEASE-17", "An acknowledgement that is lost does no harm: a later one renews"),
    rule("RUN-1", "A Trigger without starts_in that passes the check starts at once"),
    rule("RUN-3", "Check: the token is above every token seen for the item; otherwise NOT_STARTED"),
    rule("RUN-4", "A Trigger whose run is in flight is dropped without an answer"),
    rule("RUN-5", "Check: every older run of the item has left user code; otherwise NOT_STARTED"),
    rule("RUN-6", "A higher token for an item tells the older run to stop as fenced"),
    rule(
        "RUN-7",
        "Check: a slot is free (runs between attempts and held ones take one, reported ones do not); otherwise NOT_STARTED",
    ),
    rule(
        "RUN-8",
        "Check: the job is neither unknown here, nor refused, nor shut down; otherwise NOT_STARTED",
    ),
    rule("RUN-9", "Check: the drain deadline has not passed; otherwise NOT_STARTED"),
    rule("RUN-10", "Check: Goodbye was not said on this stream; otherwise NOT_STARTED"),
    rule("RUN-11", "With starts_in a run begins that much after its Trigger came, at most 5 ms earlier"),
    rule("RUN-12", "A held run is in flight and takes a slot"),
    rule(
        "RUN-13",
        "A held run whose stream is lost is dropped without a report, and its Trigger may come again",
    ),
    rule(
        "RUN-14",
        "A held run that is stopped never begins: CANCELLED, TIMED_OUT or HANDED_BACK as it was stopped; NOT_STARTED by lease or fence",
    ),
    rule(
        "RUN-15",
        "RunStarted goes out with the next heartbeat at the latest, unless the run has ended by then",
    ),
    rule(
        "RUN-16",
        "User code gets token, item, parameters, fire, attempt, offset, and the props of the last Assignment before its Trigger",
    ),
    rule(
        "RUN-17",
        "A failed attempt with attempts left is followed by another, after min(retry_backoff x multiplier^(n-1), retry_backoff_max)",
    ),
    rule("RUN-18", "A failure that is not to be retried ends the run at once"),
    rule("RUN-19", "A run that was told to stop is not tried again; one between attempts ends at once"),
    rule("RUN-20", "timeout counts from when user code began, over all attempts"),
    rule("RUN-21", "Of several reasons to stop the first is reported, but a fence outweighs"),
    rule("RUN-22", "User code is told to stop once"),
    rule("RUN-23", "A run that was stopped reports why, whatever its handler returned"),
    rule("RUN-24", "One that ignores it keeps item and slot"),
    rule("RUN-25", "A Cancel of a run that is not in user code here changes nothing"),
    rule(
        "RUN-26",
        "Right before user code, the check is made once more: a process that stood still beyond its lease starts nothing before it is attached again",
    ),
    rule("RUN-27", "A later attempt begins with the offset that the one before has set"),
    rule(
        "RUN-28",
        "A flood of Triggers: at most `slots` are in user code at a time, and each Trigger is answered",
    ),
    rule("RUN-29", "Tokens are 63 bits, and reach user code and reports to the digit"),
    rule(
        "RUN-30",
        "Tokens are per job and item: another job's run of the same item is neither older nor newer",
    ),
    rule("RUN-31", "dataflow: fetch and process; where streaming again until fetch is empty, else once"),
    rule(
        "RUN-32",
        "No attempt begins twice and no two runs of an item overlap: what `rosterd verify` judges, over all scripts",
    ),
    rule("RUN-33", "A Cancel without a reason, or with an unknown one, counts as an operator's"),
    rule("RUN-34", "What a handler throws is FAILED, with its text"),
    rule("RUN-35", "SUCCEEDED carries output, processed and failed as user code left them"),
    rule("REPORT-1", "A report is kept until its ReportAck, and sent again on every new stream"),
    rule("REPORT-2", "Until then the run is in flight"),
    rule("REPORT-3", "ACCEPTED, FENCED and an unknown result all end it"),
    rule("REPORT-4", "INVALID: in its place goes one FAILED that says so, without output, counts and offset"),
    rule("REPORT-5", "If that one is refused too, it is forgotten"),
    rule("REPORT-6", "At most max_unacknowledged_reports are under way on a stream; the rest wait"),
    rule("REPORT-7", "Reports go out in the order in which runs ended"),
    rule("REPORT-8", "An acknowledgement of what is not held, or a second one, does nothing"),
    rule("REPORT-9", "Progress goes out four times a second at most, the latest value"),
    rule(
        "REPORT-10",
        "An offset alone goes out a quarter of a second after the first was set at the soonest, and after each Welcome again",
    ),
    rule("REPORT-11", "The report carries the last offset that was set, and nothing where none was"),
    rule(
        "REPORT-12",
        "error <= 8 KiB, output <= 64 KiB, progress message <= 1 KiB, cut between characters; percent <= 100",
    ),
    rule("REPORT-13", "A report says attempt, ended_at, and started_at where user code began"),
    rule("REPORT-14", "A thousand unacknowledged reports take bounded memory, and all arrive"),
    rule("REPORT-15", "An offset above 64 KiB is refused to the handler"),
    rule("JOB-1", "A refused job leaves the others in service and is offered again 30 s later"),
    rule("JOB-2", "And at each Welcome"),
    rule(
        "JOB-3",
        "Once no job is left but refused or shut down ones, the worker leaves, and ends as refused if one was",
    ),
    rule("JOB-4", "Shutdown of a job: Unregister, then and after every Welcome; no Register any more"),
    rule("JOB-5", "Its runs in flight go on"),
    rule("JOB-6", "Shutdown of the worker, or of its last job, is a leave"),
    rule("JOB-7", "Registered for a job that is shut down or unknown here is ignored"),
    rule("JOB-9", "Nothing is registered while the worker leaves"),
    rule(
        "JOB-10",
        "One warning for each new set of config_differences, with field, both values, overwrite and `rosterd jobs apply`",
    ),
    rule("JOB-11", "A refusal is logged once until the job is registered"),
    rule("JOB-12", "Thousands of Assignments do no harm"),
    rule("JOB-13", "Register carries the handler type and the config"),
    rule("CALL-1", "A callback is called once: the same id again, while it runs, does nothing"),
    rule("CALL-2", "The last 128 answers are kept, and given again when asked again"),
    rule(
        "CALL-3",
        "At most `slots` callbacks at a time; one more is answered at once with an error and not remembered",
    ),
    rule("CALL-4", "One that takes longer than its timeout is answered with timed_out"),
    rule("CALL-5", "An answer that finds no stream goes out after the next Welcome"),
    rule("CALL-7", "A callback that fails is answered with its text"),
    rule("LEAVE-1", "Leaving (signal, the program, Drain, Shutdown) begins with DrainRequest"),
    rule("LEAVE-2", "Triggers that come before the drain deadline are still run"),
    rule("LEAVE-3", "At the drain deadline runs are stopped and reported HANDED_BACK"),
    rule("LEAVE-4", "The deadline is the drain timeout (30 s) or Drain's grace, of several the earliest"),
    rule(
        "LEAVE-5",
        "Goodbye goes out once Draining came on this stream and nothing is in flight: no run, no report, no callback",
    ),
    rule("LEAVE-6", "GoodbyeAck ends the worker as left; one without a Goodbye is ignored"),
    rule("LEAVE-7", "A new stream on the way begins with DrainRequest; the old Draining does not count"),
    rule("LEAVE-8", "Without Draining for 3 s in which nothing is in flight the stream is lost"),
    rule("LEAVE-9", "Without GoodbyeAck for 3 s the stream is lost"),
    rule(
        "LEAVE-10",
        "The worker ends unacknowledged (crashed; exit code 1) at the leave timeout (10 s) after nothing was in flight any more, and after the drain deadline at the latest",
    ),
    rule(
        "LEAVE-12",
        "A worker that was never welcomed and has no Hello out ends at once; with one out it waits for the Welcome",
    ),
    rule(
        "LEAVE-13",
        "A second signal ends the process at once; one within a second of the first counts as the first",
    ),
    rule("LEAVE-15", "The first signal writes one line that says which runs are waited for"),
];
