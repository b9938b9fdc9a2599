//! Bugs that are put in on purpose, to show that the simulation finds them: each leaves out one guard. They exist
//! only with the feature `mutants`, and then only on a thread that has switched one on by name; normal builds have
//! none of it.

macro_rules! mutants {
    ($($name:ident: $text:literal, $what:literal;)*) => {
        $(#[doc = $what] pub const $name: &str = $text;)*
        /// Every one, and what it does.
        pub const ALL: &[(&str, &str)] = &[$(($name, $what)),*];
    };
}

mutants! {
    RUNNING_NODE_IS_THE_LOCK: "running_node_is_the_lock", "a run whose nodes went with a session is taken for over";
    CRASHED_IS_FREE: "crashed_is_free", "a crashed run that waits for a taker is overwritten by the next";
    MARK_MOVES_TOKEN: "mark_moves_token", "a record that is marked while it runs gets another token";
    FIRES_WAIT_FOR_PLANS: "fires_wait_for_plans", "nothing starts while the reshard flag is up";
    REFUSED_IS_DROPPED: "refused_is_dropped", "what was refused together is not decided again at once";
    CALENDAR_BELIEVED: "calendar_believed", "a calendar that jumps is believed at once";
    STORES_CLOCK_UNREAD: "stores_clock_unread", "the calendar of a coordinator is not held against the store's clock";
    CALENDAR_SEEN_LATE: "calendar_seen_late", "a calendar is watched from the first event on, not from the start";
    OUTCOMES_UNCOUNTED: "outcomes_uncounted", "a run's end is not counted in its record";
    START_IGNORES_RECORD: "start_ignores_record", "a start writes its record whatever its version";
    START_IGNORES_ATTACHMENT: "start_ignores_attachment", "a start does not check who speaks for the worker";
    START_IGNORES_GENERATION: "start_ignores_generation", "a start does not check the rights that it read";
    TAKEOVER_SKIPS_ATTACHMENT: "takeover_skips_attachment", "who comes back is taken over without a write of the attachment";
    RECORDS_READ_BEFORE_ATTACHMENT: "records_read_before_attachment", "a take-over trusts the records that were read before it";
    ASKED_JOBS_UNREAD: "asked_jobs_unread", "a take-over does not look for runs of jobs whose registration was not answered";
    STREAM_NUMBERS_UNCHECKED: "stream_numbers_unchecked", "a Hello of a stream that was left is taken";
    VERDICT_IGNORES_VERSION: "verdict_ignores_version", "an attachment is deleted whatever its version";
    VERDICT_BEFORE_LEASE_END: "verdict_before_lease_end", "a worker is dead after half of its lease";
    DEATH_BY_ABSENCE: "death_by_absence", "a run crashes because its instance's node is not there";
    ACK_WITHOUT_PROOF: "ack_without_proof", "heartbeats are acknowledged although nothing proves the session";
    DISABLE_KEEPS_GENERATION: "disable_keeps_generation", "disabling leaves the generation as it is";
    PAUSE_KEEPS_GENERATION: "pause_keeps_generation", "pausing leaves the generation as it is";
    FLAG_CLEARED_UNREAD: "flag_cleared_unread", "a plan removes the reshard flag whatever its version";
    PLAN_IGNORES_GENERATION: "plan_ignores_generation", "a plan writes the assignment whatever its version";
    PLAN_IGNORES_EPOCH: "plan_ignores_epoch", "a plan does not check that its leader still leads";
    ELECTION_IGNORES_LEADER: "election_ignores_leader", "a leadership is taken although somebody leads";
    INCARNATION_UNCHECKED: "incarnation_unchecked", "a transaction does not check that the job is the one that was read";
    REMOVAL_IGNORES_RECORDS: "removal_ignores_records", "a job goes although a run of it has just started";
    RECORDS_GO_WITH_COUNT: "records_go_with_count", "lowering the item count deletes the records above it";
    MIRRORS_ARE_PRECONDITIONS: "mirrors_are_preconditions", "a mirror that is missing refuses a transaction";
    FAILOVER_LEFT_BEHIND: "failover_left_behind", "a run's end leaves the failover mirror";
    MARKS_IGNORE_RECORDS: "marks_ignore_records", "a worker's next host marks its runs as running whatever has become of them";
    REPORT_TOKEN_UNCHECKED: "report_token_unchecked", "a report of an old run ends the one in flight";
    ABORTED_IS_FAILED: "aborted_is_failed", "a run that its worker had to abort counts as failed";
    VERDICT_FORGETS_FAILOVER: "verdict_forgets_failover", "a verdict puts up no run for another taker";
    FAILOVER_OF_DISABLED: "failover_of_disabled", "crashed runs of disabled items are run again";
    VERDICT_DROPS_MISFIRE: "verdict_drops_misfire", "a verdict takes the misfire mark with it";
    FOREIGN_TRIGGERS_STAY: "foreign_triggers_stay", "the command of an older tool to run an instance's items is not cleared";
    FOREIGN_CONFIG_UNNOTICED: "foreign_config_unnoticed", "a schedule that another tool writes holds for the time before it too";
    STRANGE_MIRRORS_STAY: "strange_mirrors_stay", "nodes of crashed items that another tool makes stay";
    FOREIGN_SWITCHES_UNTOLD: "foreign_switches_untold", "an item that another tool disables or enables is so at the next election or reconciliation only";
    TRIGGER_STAYS: "trigger_stays", "a trigger by hand stays when its run starts";
    MISFIRE_STAYS: "misfire_stays", "the misfire mark stays when its run starts";
    NEXT_FIRE_NOT_STORED: "next_fire_not_stored", "a scheduled run does not move the last fire";
    ANY_RUN_MOVES_LAST_FIRE: "any_run_moves_last_fire", "runs by hand and failovers move the last fire";
    DRAINS_ARE_ONLY_SAID: "drains_are_only_said", "a worker that is to leave is told once, and nothing is written";
    LEASE_ENDS_GOODBYES: "lease_ends_goodbyes", "a goodbye is acknowledged when the lease ends, whatever was not handed back";
    HANDED_BACK_BY_THE_DEAD: "handed_back_by_the_dead", "what was to be handed back for a worker that left stays so when its attachment has gone";
    SHUTDOWNS_ARE_ONLY_SAID: "shutdowns_are_only_said", "a worker that is to give a job up is told once, and its next host lets it go on";
    CANCELS_ARE_ONLY_SAID: "cancels_are_only_said", "a worker that is to stop a run is told once, on the stream that it has";
    ANY_REPORT_COUNTS: "any_report_counts", "a report of whoever says it takes the place of an older one";
    ANY_CREDENTIAL_RESUMES: "any_credential_resumes", "whoever shows the key of a worker is that worker, under any credential";
    LOST_JOBS_STAY: "lost_jobs_stay", "a worker that comes back keeps the jobs that its credential has lost";
    ADDRESS_AS_SAID: "address_as_said", "a worker that comes back is on the machine that it names this time";
    TOKENS_GO_BACK: "tokens_go_back", "a coordinator numbers tokens as its store does, which may have gone back in time";
    CHANGES_ANSWER_AT_ONCE: "changes_answer_at_once", "a change is acknowledged although runs that were told before it have not begun";
    JOINED_IS_BEGUN: "joined_is_begun", "a removal waits for the runs that it found when it was asked for, and for none that is written meanwhile";
    TOLD_IS_BEGUN: "told_is_begun", "a run whose worker was told of it counts as begun";
    SETTLED_BY_ANYBODY: "settled_by_anybody", "a coordinator that does not host a run's worker says that the run has begun";
    CANCELLED_RUNS_AGAIN: "cancelled_runs_again", "a run that somebody cancelled is run again when its worker dies";
    KILLERS_GO_ON: "killers_go_on", "a run that kills its workers is failed over without end";
    OVERDUE_RUNS_STAY: "overdue_runs_stay", "a worker that does not stop a run at its timeout keeps it";
    TAKEN_AWAY_IS_FREE: "taken_away_is_free", "the slot of a run that was taken away for its timeout is given to another while the run goes on";
    FORGOTTEN_RUNS_STAY: "forgotten_runs_stay", "a run that its worker never names is sent to it for ever";
    FORGOTTEN_TOO_SOON: "forgotten_too_soon", "a run that its worker does not name is ended though it may still be on its way to it";
    OFFSETS_STAY: "offsets_stay", "what an item's last run left is not read again although another host has had the item since";
    HELD_STAYS_HELD: "held_stays_held", "runs that are held when the guarantee is switched off are released by nobody";
    CLAIMS_ARE_NOT_HELD: "claims_are_not_held", "a held run that crashed begins elsewhere before its fire was announced";
    HELD_OUTLIVES_INSTANCE: "held_outlives_instance", "a run that waits for an announcement on an instance that leaves the job is left to nobody";
    HELD_WAITS_FOR_SLOTS: "held_waits_for_slots", "runs that are held wait for one that has no slot as long as they hold theirs";
    HELD_WAITS_FOR_EVER: "held_waits_for_ever", "runs that are held wait for an item of their fire however long its start takes";
    DRAINED_ARE_ASKED: "drained_are_asked", "who leads a job whose fires are announced has only workers that leave, and asks nobody";
    HELD_IS_NOT_CANCELLED: "held_is_not_cancelled", "a held run that is cancelled waits until its fire is announced";
    ELECTED_FOR_NOTHING: "elected_for_nothing", "who cannot lead a job is elected for it again and again, and gives it up at once";
    GIVEN_UP_IS_ANSWERED: "given_up_is_answered", "a worker that gives an answer up in time has answered: a fire that is to be skipped runs";
    ASKS_AND_LEAVES: "asks_and_leaves", "who leads gives that up while a worker of its own is being asked, and another is asked again";
    PROGRESS_IS_NOT_WRITTEN: "progress_is_not_written", "how far a run has come is written with its end alone";
    PROGRESS_IS_UNGUARDED: "progress_is_unguarded", "how far a run has come is written though another has taken its place";
    WAITING_KEEPS_LEADING: "waiting_keeps_leading", "who has been asked for a change leads on until runs have begun that only another leader can let begin";
    COMMANDS_GO_WITH_INSTANCES: "commands_go_with_instances", "the command to drain an instance is cleared when its node is not there";
    DEAD_OWNERS_COUNT: "dead_owners_count", "an item whose owner has died counts as owned until somebody else has it";
    MISSES_UNCOUNTED: "misses_uncounted", "missed scheduled times are passed over without a count";
    SLOTS_UNCOUNTED: "slots_uncounted", "runs in flight take no slot";
    SPEAKS_BEFORE_COMMIT: "speaks_before_commit", "a Trigger is sent before its run is written down";
    TELLS_EARLY: "tells_early", "a run that is written ahead of its time begins at once";
    UNKNOWN_TAKEN_FOR_DONE: "unknown_taken_for_done", "a write without an answer is taken for done";
    ABSENCE_IS_A_COMMAND: "absence_is_a_command", "an instance that went with a session is shut down as if somebody had deleted it";
    PLANS_FOLLOW_THE_FLAG: "plans_follow_the_flag", "a leader compares nothing: it plans where the flag is up";
    DISABLED_OWN_ITEMS: "disabled_own_items", "items are given to instances that are disabled";
    PAUSE_HOLDS_PLANS: "pause_holds_plans", "a job that is paused is not planned";
    ELECTED_ONCE: "elected_once", "a job that was led before is led by nobody again";
    OUTAGE_NEVER_ENDS: "outage_never_ends", "a coordinator that was cut off from the store stays suspended";
    SUSPENDED_IS_GONE: "suspended_is_gone", "a session that does not answer is taken for over";
    FORSAKEN_UNJUDGED: "forsaken_unjudged", "nobody judges workers whose host has gone";
    GAPS_FORGOTTEN: "gaps_forgotten", "scheduled times of a pause, or of what was disabled, are run late like others";
    BUSY_IS_FREE: "busy_is_free", "a scheduled time starts a run beside the one in flight";
    ENDED_ITEMS_CRASH: "ended_items_crash", "whatever a dead worker owned is run again, ended or not";
    WORKERS_JOIN_BATCHES: "workers_join_batches", "a worker that runs something is given nothing else";
    UNTOLD_STAYS_UNTOLD: "untold_stays_untold", "a run that its worker does not know of is not sent again";
    FENCED_UNTOLD: "fenced_untold", "a run that is nobody's any more is not told to stop";
    SCHEDULE_KEPT: "schedule_kept", "a change of the configuration leaves the rules as they were";
    FOLLOWERS_POLL: "followers_poll", "who does not lead a job reads it again as soon as it has read it";
    UNCHANGED_IS_WRITTEN: "unchanged_is_written", "a host's transaction writes all records of the job, changed or not";
    WATCHES_STAY: "watches_stay", "a job that nobody here needs any more is watched on";
    STICKY_FORGETS: "sticky_forgets", "a plan does not know who owns what";
    TRANSACTIONS_ARE_LOGGED: "transactions_are_logged", "what a transaction writes stands in the log";
    PUT_OFF_IS_FORGOTTEN: "put_off_is_forgotten", "a plan that waits for a fire that is near waits on when that fire is none any more";
    STANDING_IN_IS_FORGOTTEN: "standing_in_is_forgotten", "who was elected because another did not come gives up again at once";
    OVER_AND_LISTENS: "over_and_listens", "a coordinator that knows that its session is over still acknowledges heartbeats";
    GOODBYE_ACK_BEFORE_COMMIT: "goodbye_ack_before_commit", "a worker may go before its attachment has gone";
}

/// Of the store on ZooKeeper, whose tests find it; the simulation's store packs nothing.
pub const PACKETS_MIX: &str = "packets_mix";
/// Of the same: whatever session a server gives at a reconnect is taken for the one that was.
pub const ANY_SESSION_IS_OURS: &str = "any_session_is_ours";

#[cfg(feature = "mutants")]
thread_local! {
    static ON: std::cell::Cell<Option<&'static str>> = const { std::cell::Cell::new(None) };
}

/// Switches a bug on for this thread, or none.
#[cfg(feature = "mutants")]
pub fn switch(name: Option<&'static str>) {
    ON.set(name);
}

/// Whether this bug is switched on.
#[cfg(feature = "mutants")]
pub fn is_on(name: &str) -> bool {
    ON.get() == Some(name)
}

/// Whether this bug is switched on: never.
#[cfg(not(feature = "mutants"))]
pub const fn is_on(_name: &str) -> bool {
    false
}
