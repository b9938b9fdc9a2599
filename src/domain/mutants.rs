//! Bugs that are built in on purpose, to show that the simulation finds them: each disables one guard, in one line
//! around it. They exist only with the feature `mutants`, and only on a thread that has switched one on by name; normal
//! builds have none of them. Bugs that need more than that line are not in this tree at all ([`PATCHED`]).

macro_rules! mutants {
    ($($name:ident: $text:literal, $what:literal;)*) => {
        $(#[doc = $what] pub const $name: &str = $text;)*
        /// All of them, each with its effect.
        pub const ALL: &[(&str, &str)] = &[$(($name, $what)),*];
    };
}

mutants! {
    RUNNING_NODE_IS_THE_LOCK: "running_node_is_the_lock", "a run counts as ended once its nodes have gone with a session";
    CRASHED_IS_FREE: "crashed_is_free", "the next run of an item overwrites a crashed run that waits for failover";
    MARK_MOVES_TOKEN: "mark_moves_token", "marking a record during a run changes its token";
    FIRES_WAIT_FOR_PLANS: "fires_wait_for_plans", "no run starts while resharding is requested";
    REFUSED_IS_DROPPED: "refused_is_dropped", "a job whose transaction was refused is not decided again at once";
    CALENDAR_BELIEVED: "calendar_believed", "a jump of the wall clock is trusted at once";
    STORES_CLOCK_UNREAD: "stores_clock_unread", "a coordinator does not compare its wall clock with the store's";
    CALENDAR_SEEN_LATE: "calendar_seen_late", "the wall clock is watched from the first event on, not from the start";
    OUTCOMES_UNCOUNTED: "outcomes_uncounted", "the end of a run is not counted in its item's record";
    START_IGNORES_RECORD: "start_ignores_record", "a start writes the record without checking its version";
    START_IGNORES_ATTACHMENT: "start_ignores_attachment", "a start does not check which coordinator hosts the worker";
    START_IGNORES_GENERATION: "start_ignores_generation", "a start does not check the generation that it was decided from";
    TAKEOVER_SKIPS_ATTACHMENT: "takeover_skips_attachment", "a worker that reconnects is taken over without writing its attachment";
    RECORDS_READ_BEFORE_ATTACHMENT: "records_read_before_attachment", "a takeover trusts records that were read before it";
    ASKED_JOBS_UNREAD: "asked_jobs_unread", "a takeover does not look for runs of jobs whose registration is not acknowledged";
    STREAM_NUMBERS_UNCHECKED: "stream_numbers_unchecked", "a Hello of an abandoned stream is accepted";
    EXPIRY_IGNORES_VERSION: "expiry_ignores_version", "an attachment is deleted without checking its version";
    EXPIRY_BEFORE_LEASE_END: "expiry_before_lease_end", "a worker is marked dead after half of its lease";
    DEATH_BY_ABSENCE: "death_by_absence", "a run counts as crashed because its instance's node is missing";
    ACK_WITHOUT_PROOF: "ack_without_proof", "heartbeats are acknowledged although nothing proves the session";
    DISABLE_KEEPS_GENERATION: "disable_keeps_generation", "disabling does not change the generation";
    PAUSE_KEEPS_GENERATION: "pause_keeps_generation", "pausing does not change the generation";
    FLAG_CLEARED_UNREAD: "flag_cleared_unread", "a plan removes the reshard flag without checking its version";
    PLAN_IGNORES_GENERATION: "plan_ignores_generation", "a plan writes the assignment without checking its version";
    PLAN_IGNORES_EPOCH: "plan_ignores_epoch", "a plan does not check that its leader still leads";
    ELECTION_IGNORES_LEADER: "election_ignores_leader", "a coordinator takes the leadership although another one leads";
    INCARNATION_UNCHECKED: "incarnation_unchecked", "a transaction does not check that the job is the one that was read";
    REMOVAL_IGNORES_RECORDS: "removal_ignores_records", "a job is removed although a run of it has just started";
    RECORDS_GO_WITH_COUNT: "records_go_with_count", "lowering the item count deletes the records above it";
    MIRRORS_ARE_PRECONDITIONS: "mirrors_are_preconditions", "a transaction is refused if a mirror is missing";
    FAILOVER_LEFT_BEHIND: "failover_left_behind", "the end of a run does not remove the failover mirror";
    MARKS_IGNORE_RECORDS: "marks_ignore_records", "the next host of a worker marks its runs as running without checking their records";
    REPORT_TOKEN_UNCHECKED: "report_token_unchecked", "a report of an earlier run ends the run in flight";
    ABORTED_IS_FAILED: "aborted_is_failed", "a run that its worker aborted counts as failed";
    EXPIRY_FORGETS_FAILOVER: "expiry_forgets_failover", "marking a worker dead does not offer its runs for failover";
    FAILOVER_OF_DISABLED: "failover_of_disabled", "crashed runs of disabled items are run again";
    EXPIRY_DROPS_MISFIRE: "expiry_drops_misfire", "marking a worker dead removes the misfire mark";
    FOREIGN_TRIGGERS_STAY: "foreign_triggers_stay", "an older tool's command to run an instance's items is not cleared";
    FOREIGN_CONFIG_UNNOTICED: "foreign_config_unnoticed", "a schedule that another tool writes also applies to the time before it";
    STRANGE_MIRRORS_STAY: "strange_mirrors_stay", "nodes that another tool creates for crashed items are not removed";
    FOREIGN_SWITCHES_UNTOLD: "foreign_switches_untold", "an item that another tool disables or enables changes only at the next election or reconciliation";
    TRIGGER_STAYS: "trigger_stays", "a manual trigger is not removed when its run starts";
    MISFIRE_STAYS: "misfire_stays", "the misfire mark is not removed when its run starts";
    NEXT_FIRE_NOT_STORED: "next_fire_not_stored", "a scheduled run does not advance the last fire";
    ANY_RUN_MOVES_LAST_FIRE: "any_run_moves_last_fire", "manual runs and failovers advance the last fire";
    DRAINS_ARE_ONLY_SAID: "drains_are_only_said", "a worker is asked once to leave, and nothing is written";
    LEASE_ENDS_GOODBYES: "lease_ends_goodbyes", "a goodbye is acknowledged at the end of the lease, although runs have not been handed back";
    HANDED_BACK_BY_THE_DEAD: "handed_back_by_the_dead", "reports that hand runs back for a worker that left are kept after its attachment has gone";
    SHUTDOWNS_ARE_ONLY_SAID: "shutdowns_are_only_said", "a worker is asked once to leave a job, and its next host does not ask again";
    CANCELS_ARE_ONLY_SAID: "cancels_are_only_said", "a worker is asked once to stop a run, on its current stream only";
    ANY_REPORT_COUNTS: "any_report_counts", "a report replaces an earlier one whichever worker sends it";
    ANY_CREDENTIAL_RESUMES: "any_credential_resumes", "a worker's resume key is accepted under any credential";
    LOST_JOBS_STAY: "lost_jobs_stay", "a worker that reconnects keeps jobs that its credential no longer covers";
    ADDRESS_AS_SAID: "address_as_said", "a worker that reconnects moves to the address that it states this time";
    TOKENS_GO_BACK: "tokens_go_back", "a coordinator takes tokens from its store alone, which may have gone back in time";
    CHANGES_ANSWER_AT_ONCE: "changes_answer_at_once", "a change is acknowledged although runs that were sent before it have not begun";
    JOINED_IS_BEGUN: "joined_is_begun", "a removal waits only for the runs that it found at first, not for runs that are written meanwhile";
    TOLD_IS_BEGUN: "told_is_begun", "a run counts as begun once it is sent to its worker";
    SETTLED_BY_ANYBODY: "settled_by_anybody", "a coordinator that does not host a run's worker marks the run as begun";
    CANCELLED_RUNS_AGAIN: "cancelled_runs_again", "a cancelled run is run again when its worker dies";
    KILLERS_GO_ON: "killers_go_on", "a run that kills its workers is failed over without limit";
    OVERDUE_RUNS_STAY: "overdue_runs_stay", "a run that its worker does not stop at its timeout stays with the worker";
    TAKEN_AWAY_IS_FREE: "taken_away_is_free", "the slot of a run that was taken away at its timeout is given to another run while user code goes on";
    FORGOTTEN_RUNS_STAY: "forgotten_runs_stay", "a run that its worker never names is sent to it for ever";
    FORGOTTEN_TOO_SOON: "forgotten_too_soon", "a run that its worker does not name is ended although its Trigger may still be in transit";
    OFFSETS_STAY: "offsets_stay", "an item's offset is not read again although another host has had the item since";
    HELD_STAYS_HELD: "held_stays_held", "held runs are not released when the guarantee is switched off";
    CLAIMS_ARE_NOT_HELD: "claims_are_not_held", "a held run that crashed begins elsewhere before its fire is announced";
    HELD_OUTLIVES_INSTANCE: "held_outlives_instance", "a held run is orphaned when its instance leaves the job";
    HELD_WAITS_FOR_SLOTS: "held_waits_for_slots", "held runs wait for one that has no slot while they occupy the slots";
    HELD_WAITS_FOR_EVER: "held_waits_for_ever", "held runs wait without limit for the start of another item of their fire";
    DRAINED_ARE_ASKED: "drained_are_asked", "the leader of a job whose fires are announced has only draining workers, and asks none of them";
    HELD_IS_NOT_CANCELLED: "held_is_not_cancelled", "a held run that is cancelled waits until its fire is announced";
    ELECTED_FOR_NOTHING: "elected_for_nothing", "a coordinator that cannot lead a job is elected again and again, and steps down at once";
    GIVEN_UP_IS_ANSWERED: "given_up_is_answered", "a callback that timed out at its worker counts as answered: a fire that should be skipped runs";
    ASKS_AND_LEAVES: "asks_and_leaves", "a leader steps down while one of its workers is being asked, and another worker is asked again";
    PROGRESS_IS_NOT_WRITTEN: "progress_is_not_written", "the progress of a run is written only with its end";
    PROGRESS_IS_UNGUARDED: "progress_is_unguarded", "the progress of a run is written although another run has replaced it";
    WAITING_KEEPS_LEADING: "waiting_keeps_leading", "a leader that waits with a change for runs does not step down, although only another leader can let them begin";
    COMMANDS_GO_WITH_INSTANCES: "commands_go_with_instances", "the command to drain an instance is cleared if the instance's node is missing";
    DEAD_OWNERS_COUNT: "dead_owners_count", "an item whose owner has died counts as owned until it is reassigned";
    MISSES_UNCOUNTED: "misses_uncounted", "missed scheduled times are skipped without being counted";
    SLOTS_UNCOUNTED: "slots_uncounted", "runs in flight occupy no slot";
    FREED_SLOTS_STAY: "freed_slots_stay", "a slot that is free again is not offered to the items that wait for it";
    SPEAKS_BEFORE_COMMIT: "speaks_before_commit", "a Trigger is sent before its run is committed";
    TELLS_EARLY: "tells_early", "a run that is written ahead of its time begins at once";
    UNKNOWN_TAKEN_FOR_DONE: "unknown_taken_for_done", "a write with an unknown outcome counts as committed";
    ABSENCE_IS_A_COMMAND: "absence_is_a_command", "an instance whose node went with a session is shut down as if an operator had deleted it";
    PLANS_FOLLOW_THE_FLAG: "plans_follow_the_flag", "a leader plans only if the reshard flag is set, without comparing the assignment";
    DISABLED_OWN_ITEMS: "disabled_own_items", "items are assigned to disabled instances";
    PAUSE_HOLDS_PLANS: "pause_holds_plans", "a paused job is not planned";
    ELECTED_ONCE: "elected_once", "a job that has lost its leader elects no other";
    OUTAGE_NEVER_ENDS: "outage_never_ends", "a coordinator that lost the store stays suspended when the store returns";
    SUSPENDED_IS_GONE: "suspended_is_gone", "a session that does not answer counts as expired";
    FORSAKEN_UNJUDGED: "forsaken_unjudged", "workers whose host has gone are never marked dead";
    GAPS_FORGOTTEN: "gaps_forgotten", "scheduled times within a pause, or of a disabled item, are run late like any others";
    BUSY_IS_FREE: "busy_is_free", "a scheduled time starts a second run beside the one in flight";
    ENDED_ITEMS_CRASH: "ended_items_crash", "all items of a dead worker are run again, also those whose run has ended";
    WORKERS_JOIN_BATCHES: "workers_join_batches", "a worker that runs an item is given no other item";
    UNTOLD_STAYS_UNTOLD: "untold_stays_untold", "a run that its worker does not know is not sent again";
    FENCED_UNTOLD: "fenced_untold", "a worker is not told to stop a run that it no longer owns";
    SCHEDULE_KEPT: "schedule_kept", "a change of the configuration does not change the schedule";
    FOLLOWERS_POLL: "followers_poll", "a coordinator that does not lead a job reads it again as soon as it has read it";
    UNCHANGED_IS_WRITTEN: "unchanged_is_written", "a host's transaction writes all records of the job, changed or not";
    WATCHES_STAY: "watches_stay", "a job that this coordinator no longer needs is still watched";
    STICKY_FORGETS: "sticky_forgets", "a plan does not know the current owners";
    TRANSACTIONS_ARE_LOGGED: "transactions_are_logged", "the contents of transactions are logged";
    PUT_OFF_IS_FORGOTTEN: "put_off_is_forgotten", "a plan that is deferred for a fire is not resumed when that fire no longer exists";
    STANDING_IN_IS_FORGOTTEN: "standing_in_is_forgotten", "a coordinator that was elected in place of one that did not respond steps down at once";
    OVER_AND_LISTENS: "over_and_listens", "a coordinator that knows that its session has expired still acknowledges heartbeats";
    GOODBYE_ACK_BEFORE_COMMIT: "goodbye_ack_before_commit", "a goodbye is acknowledged before the attachment is deleted";
}

/// Bugs that add code which no build of ours has: it is in `tests/sim/patches`, and only in a copy of the tree.
pub const PATCHED: &[&str] = &[
    RUNNING_NODE_IS_THE_LOCK,
    CRASHED_IS_FREE,
    MARK_MOVES_TOKEN,
    DEATH_BY_ABSENCE,
    BUSY_IS_FREE,
    ENDED_ITEMS_CRASH,
    RECORDS_GO_WITH_COUNT,
    ELECTION_IGNORES_LEADER,
    ANY_RUN_MOVES_LAST_FIRE,
    UNCHANGED_IS_WRITTEN,
    TAKEOVER_SKIPS_ATTACHMENT,
    DRAINS_ARE_ONLY_SAID,
    COMMANDS_GO_WITH_INSTANCES,
    SPEAKS_BEFORE_COMMIT,
    WORKERS_JOIN_BATCHES,
    FOLLOWERS_POLL,
    TRANSACTIONS_ARE_LOGGED,
    GOODBYE_ACK_BEFORE_COMMIT,
];
/// Whether this is such a copy.
pub const ARE_PATCHED: bool = false;

/// In the ZooKeeper store, whose tests find it; the simulation's store has no packets.
pub const PACKETS_MIX: &str = "packets_mix";
/// In the ZooKeeper store: accepts any session that a server gives at a reconnect.
pub const ANY_SESSION_IS_OURS: &str = "any_session_is_ours";

#[cfg(feature = "mutants")]
thread_local! {
    static ON: std::cell::Cell<Option<&'static str>> = const { std::cell::Cell::new(None) };
}

/// Switches a bug on for this thread, or all off.
#[cfg(feature = "mutants")]
pub fn switch(name: Option<&'static str>) {
    ON.set(name);
}

/// The bug that is switched on for this thread.
#[cfg(feature = "mutants")]
pub fn switched_on() -> Option<&'static str> {
    ON.get()
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
