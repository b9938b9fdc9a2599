//! Scripts that once broke an invariant, one for each cause, named by it. If the cause can be shown more briefly, a
//! scene or a unit test covers it instead.
//!
//! Each was made from a seed (`KEEP=FILE SEED=N cargo xtask sim`) and is kept in `found/`, since a seed plays
//! differently once the generator has changed. Only the code that it plays can change how a script plays: because each
//! new source of randomness draws from a stream of its own, the others stay as they were.

use std::collections::BTreeSet;
use std::path::Path;

use crate::seeds::play::play;
use crate::seeds::script::Script;

#[track_caller]
fn holds(text: &str) {
    let script = Script::read(text).unwrap_or_else(|why| panic!("{why}"));
    let broken = play(&script, false).broken;
    assert!(broken.is_empty(), "{broken:#?}");
}

macro_rules! scripts {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        const ALL: &[&str] = &[$(stringify!($name)),*];

        $($(#[$doc])* #[test] fn $name() {
            holds(include_str!(concat!("../found/", stringify!($name), ".script")));
        })*
    };
}

scripts! {
    /// It had been written ahead by a coordinator that died, and the worker attached to one whose calendar was 1.9 s
    /// behind.
    a_run_of_another_calendar_began_before_its_time;
    /// The read after a refused transaction was executed before the leave was written, and its answer arrived after.
    a_worker_that_was_leaving_was_given_runs;
    /// A late write of the previous process removed the node of a coordinator. In the product no name is reused.
    two_coordinators_had_one_name;
    /// A held run was sent to a worker that had just said goodbye, which handed it back at once.
    a_trigger_crossed_a_goodbye;
    /// A session that had ended without notice was reconnected by the end of another fault, and its coordinator led on.
    a_session_that_was_over_came_back;
    /// A session that was to end without notice was reconnected by the end of another fault, wrote, and was still ended
    /// as soon as it was unreachable once more: its holder relied on the full timeout from that write on.
    a_session_was_over_right_after_it_was_heard;
    /// A job was removed with its runs and created again, while their host was cut off from the store.
    runs_of_a_removed_job_met_those_of_the_next;
    /// The same in the other order, a mistake of the invariant: a host whose store had answered late sent a run of the
    /// removed job after one of the next job had started.
    a_run_of_a_removed_job_began_after_one_of_the_next;
    /// A run was written ahead of its time, its job removed, and created again before that time.
    a_job_that_was_made_again_fired_in_the_same_second;
    /// The former leader let a callback time out, after another leader had released the fire.
    a_run_that_was_released_was_skipped;
    /// A mistake of the invariant: a coordinator whose calendar was set back did not believe it, and sent a run by the
    /// time that it should show; the invariant used the latest time that it ever had shown.
    a_calendar_that_was_set_back_was_not_believed;
    /// A mistake of two invariants: a run went on, slowly, from when its job used monitorExecution. It has no nodes any
    /// longer, and its item gets no other run.
    a_run_went_on_from_when_it_was_monitored;
    /// A mistake of the judge: a frozen worker was resumed and frozen for good in one instant, and was judged to have
    /// gone on with its run.
    a_worker_was_let_go_for_no_time;
    /// A worker was frozen in the very instant in which a run's work was over. When it resumed, the handler ran before
    /// the task that would have stopped it, and took its work for done.
    a_handler_woke_first;
    /// A worker that was marked dead before its jobs were moved stayed in their list of workers here: a leader without
    /// any worker believed that it had one to ask, and released nothing.
    a_leader_asked_a_worker_that_was_dead_before_its_welcome;
    /// The same, and the instance of a worker that died while it was being published was left behind.
    an_instance_was_put_while_its_worker_died;
    /// It left within milliseconds of its registration: the instance was published, and no coordinator knew that it had
    /// to be removed.
    an_instance_was_put_while_its_worker_left;
    /// It had registered a job, was told that the job had been removed, and gave it up; then its registration created
    /// the job, and it was assigned items that it did not run.
    a_registration_outlived_its_withdrawal;
    /// Failover was switched on, and the host of a run had not noticed it when the run was reported as aborted.
    a_run_crashed_right_after_failover_was_switched_on;
    /// The schedule was changed by a coordinator whose calendar was 0.9 s ahead, and right after by one that was not:
    /// between the two times both schedules were in force, and a scheduled time was counted twice.
    a_schedule_began_before_the_one_that_it_replaced;
    /// A mistake of the invariant: when an item came back into its job, one write dropped an old misfire mark and set
    /// another, and the invariant saw only that there still was one.
    a_mark_was_dropped_and_another_made;
    /// The same for an item that had left its job twice, with a crashed run given up in between.
    a_mark_was_dropped_and_another_made_after_two_absences;
    /// The outcome of marking a worker dead was unknown, the read that was to resolve it failed, and was not repeated.
    a_verdict_was_neither_known_nor_looked_into;
    /// A worker had been hosted by one coordinator, and then by another that marked it dead and died before it had
    /// removed the instance, which the first one's session kept: items belonged to it for good.
    an_instance_outlived_its_worker_and_who_had_buried_it;
    /// A worker moved to another host with its runs, and the previous host ended these before the next one had marked
    /// them as running: the marks stayed.
    runs_were_marked_after_they_had_ended;
    /// A host had died when its write arrived that marked its worker dead. The worker's run was of an item that the job
    /// no longer had, and the other coordinators only dropped the worker.
    a_verdict_outlived_its_host;
    /// A mistake of the invariant: a coordinator had followed its calendar while that ran fast, then it was set back by
    /// a day, and runs were sent by the time that it had reached. The invariant used the time that it would show if it
    /// had never been fast.
    a_calendar_that_had_been_fast_was_set_back;
    /// The attachments were read at once, and the coordinators a second later, when a host had just ended: the leases
    /// of its workers were counted from the former, although the host had acknowledged heartbeats since.
    a_lease_was_counted_from_before_its_host_had_gone;
    /// A mistake of the invariant: a manual trigger came in the second of a scheduled fire, and its writes were counted
    /// with that fire's.
    an_operator_asked_in_the_second_of_a_fire;
    /// The same, with the triggered run first and the fire after it, as a misfire.
    an_operator_asked_right_before_a_fire_of_that_second;
    /// The last item that a leader hosted left its job 20 ms before the fire for which the leader had deferred its
    /// plan: there was no longer such a fire, and the plan was never made.
    a_plan_waited_for_a_fire_that_was_none;
    /// A host was frozen while its session ended. When it resumed, it was notified of that first, and then acknowledged
    /// the heartbeats that had arrived meanwhile.
    who_knew_that_its_session_was_over_acknowledged;
    /// A mistake of the invariant: the leader of a job whose fires are announced must host a worker of it, so the
    /// leadership follows its workers, which came and went; the invariant only considered coordinators.
    a_leadership_followed_the_workers_of_its_job;
    /// A worker said goodbye to a host that could not write it, and attached to another one, which sent it a run. The
    /// first host read that run, and handed it back as a leftover of the worker, while it was in user code.
    a_host_that_was_left_handed_back_what_another_had_given;
    /// An instance was deleted, and its worker finished a long run for that job. Its host ended; the next one had no
    /// instance to publish, and so did not mark the run again.
    a_run_of_a_deleted_instance_was_not_marked_by_its_next_host;
    /// A worker gave up a job that had been created again; its host removed the instance, based on a read before the
    /// first plan, which assigned it items. The leader took it for one about to come back, and the items were not run.
    an_instance_was_taken_away_while_a_plan_gave_it_items;
    /// A worker said goodbye, and a held run that it had never been sent could not be written as handed back. When its
    /// lease ended its attachment was removed, and its leave was acknowledged: the run crashed after a clean leave.
    a_goodbye_was_acknowledged_by_the_end_of_a_lease;
    /// A mistake of the invariant: a worker of four slots owned eight items; those of a job without misfires started no
    /// run for long, since misfires of others had always waited longer.
    a_job_found_no_slot_for_long;
    /// Runs were held on an instance that was deleted, the last of its job. No instance was left to call, and its
    /// worker, which had left the job and had never been sent them, kept their slots.
    a_held_run_stayed_with_an_instance_that_was_deleted;
    /// The host of the workers of a job whose fires are announced could not write. Another coordinator, which could not
    /// lead without a worker of the job, was elected for it and stepped down, again and again.
    who_cannot_lead_was_elected_again_and_again;
    /// A mistake of the invariant: a foreign tool removed the mirror of a run whose handler was so slow that it
    /// outlasted the world. It comes back with the next run.
    a_mirror_was_removed_while_its_run_went_on_for_long;
    /// A calendar jumped by a day between the start of its coordinator and the coordinator's first event, from which on
    /// it was watched.
    a_calendar_jumped_before_its_coordinator_heard_anything;
    /// A new coordinator did not know of any other, and acknowledged a change based on its first read.
    a_change_was_acknowledged_by_who_had_just_come;
    /// A worker resumed late, and the first thing that it read was the end of its stream: it read on after that, and
    /// panicked. (Seed 7008.)
    a_stream_ended_while_its_worker_stood_still;
    /// A removal waited for one run, and another was written meanwhile; it started after the removal, and a concurrent
    /// disable, had been answered.
    a_run_joined_those_that_a_removal_waited_for;
    /// A removal with its runs went on after a change had added items, whose runs it did not know of: its coordinator had read
    /// the new assignment, and not the records.
    a_removal_did_not_know_the_items_that_a_change_had_added;
    /// The store answered the write of a new worker's attachment late. A read found it meanwhile, its host's own session
    /// counted as an earlier one, and the worker was marked dead right after its Welcome.
    a_read_found_an_attachment_before_its_writer_heard_of_it;
    /// A mistake of the rules for plans: they took the slot of a run that timed out for free, although its worker may
    /// continue with it, so that a scheduled time that waited for a slot could not be merged into the next one.
    a_run_that_was_taken_away_kept_its_slot;
}

/// Every script in the folder has a test.
#[test]
fn every_script_that_is_kept_is_played() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("found");
    let files = std::fs::read_dir(folder).unwrap();
    let kept: BTreeSet<String> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(kept, ALL.iter().map(|name| format!("{name}.script")).collect());
}
