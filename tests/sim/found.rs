//! Scripts that once broke a promise, one for each cause, named by it. Where the cause can be told more shortly, a scene or a
//! test beside the code does.
//!
//! Each was made from a seed (`KEEP=FILE SEED=N cargo xtask sim`) and stands in `found/`, since a seed is another story once
//! the generator has changed. What may change a script's story is the code that it plays: that a new source of chance
//! draws from a stream of its own is what keeps the others as they were.

use std::collections::BTreeSet;
use std::path::Path;

use crate::play::play;
use crate::script::Script;

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
            holds(include_str!(concat!("found/", stringify!($name), ".script")));
        })*
    };
}

scripts! {
    /// It had been written ahead by a coordinator that died, and the worker came to one whose calendar was 1.9 s behind.
    a_run_of_another_calendar_began_before_its_time;
    /// What a refused transaction had asked for was read before the leave was written, and arrived after.
    a_worker_that_was_leaving_was_given_runs;
    /// A late write of the process before took the node of a coordinator away. In the product no name is used again.
    two_coordinators_had_one_name;
    /// A run that had been held was told to a worker that had just said goodbye, and handed back by it at once.
    a_trigger_crossed_a_goodbye;
    /// A session that had ended unheard was connected again by the end of another fault, and led on.
    a_session_that_was_over_came_back;
    /// A session that was to end unheard was connected again by the end of another fault, wrote, and was ended all the same
    /// as soon as it was out of reach once more: its holder counted with the whole time from that write on.
    a_session_was_over_right_after_it_was_heard;
    /// A job was removed with its runs and made again, while their host was cut off from the store.
    runs_of_a_removed_job_met_those_of_the_next;
    /// The same the other way round, the rule's mistake: a run of the removed job was told of after the next job's had begun, by
    /// a host whose store had answered late.
    a_run_of_a_removed_job_began_after_one_of_the_next;
    /// A run was written ahead of its time, its job removed, and made again before that time.
    a_job_that_was_made_again_fired_in_the_same_second;
    /// Who had led the job let the time of a callback pass, after another leader had released the fire.
    a_run_that_was_released_was_skipped;
    /// The rule's mistake: a coordinator whose calendar was set back did not believe that, and told of a run by what it
    /// should say; the rule went by the latest that it ever had said.
    a_calendar_that_was_set_back_was_not_believed;
    /// The judge's mistake: a worker that stood still was let go and left standing still for good in one instant, and was
    /// said to have gone on with its run.
    a_worker_was_let_go_for_no_time;
    /// A worker stood still in the very instant in which a run's work was over. When it woke, the handler had its turn before
    /// what would have told it to stop, and took its work for done.
    a_handler_woke_first;
    /// A worker that was marked dead before its jobs were moved stayed among those whom they had here: a leader without
    /// any worker believed that it had one to ask, and released nothing.
    a_leader_asked_a_worker_that_was_dead_before_its_welcome;
    /// The same, and the instance of one that died while it was being put was left behind.
    an_instance_was_put_while_its_worker_died;
    /// It left within milliseconds of its registration: the instance was put, and nobody knew that it was to be taken away.
    an_instance_was_put_while_its_worker_left;
    /// It had asked for a job, was told that the job had been removed, and gave it up; then the job was made for what it had
    /// asked, and items were given to it that it did not run.
    a_registration_outlived_its_withdrawal;
    /// Failover was switched on, which the host of a run had not heard when the run was reported as aborted.
    a_run_crashed_right_after_failover_was_switched_on;
    /// The schedule was changed by a coordinator whose calendar was 0.9 s ahead, and right after by one that was not: between
    /// the two both schedules held, and a scheduled time was counted twice.
    a_schedule_began_before_the_one_that_it_replaced;
    /// The rule's mistake: of an item that came back into its job a mark from before was dropped and another made in one
    /// write, and the rule saw only that there was one still.
    a_mark_was_dropped_and_another_made;
    /// The same of an item that had left its job twice, with a crashed run given up in between.
    a_mark_was_dropped_and_another_made_after_two_absences;
    /// What became of the verdict on a worker was not known, the read that was to tell failed, and nobody asked again.
    a_verdict_was_neither_known_nor_looked_into;
    /// A worker had been hosted by one coordinator, and then by another that marked it dead and died before it had taken the
    /// instance away, which the first one's session kept: items belonged to it for good.
    an_instance_outlived_its_worker_and_who_had_buried_it;
    /// Worker and runs came to another host, and its last one ended these before the next one had marked them as running: the
    /// marks stayed.
    runs_were_marked_after_they_had_ended;
    /// A host had died when what it had written arrived: that its worker was dead. The worker's run was of an item that the job
    /// had no more, and the others only forgot that there had been such a worker.
    a_verdict_outlived_its_host;
    /// The rule's mistake: a coordinator had followed its calendar while that ran fast, then it was set back by a day, and runs
    /// were told on from where the calendar had come to. The rule went by what it would say had it never been fast.
    a_calendar_that_had_been_fast_was_set_back;
    /// Who is attached was read at once, and who is there a second later, when a host had just ended: its workers had a lease
    /// from the former, though the host had acknowledged heartbeats since.
    a_lease_was_counted_from_before_its_host_had_gone;
    /// The rule's mistake: a fire was asked for in the second of one that the calendar had, and its writes were counted with
    /// that one's.
    an_operator_asked_in_the_second_of_a_fire;
    /// The same, where the run that was asked for came first and the fire was run after it, as a misfire.
    an_operator_asked_right_before_a_fire_of_that_second;
    /// The last item that a leader hosted left its job 20 ms before the fire for which the leader had put its plan off: there was
    /// no such fire any more, and the plan was never made.
    a_plan_waited_for_a_fire_that_was_none;
    /// A host stood still while its session ended. When it woke it heard of that first, and then acknowledged the heartbeats
    /// that had come meanwhile.
    who_knew_that_its_session_was_over_acknowledged;
    /// The rule's mistake: who leads a job whose fires are announced must be a host of it, and so its leadership follows its
    /// workers, who came and went; the rule knew of coordinators alone.
    a_leadership_followed_the_workers_of_its_job;
    /// A worker said goodbye to a host that could not write it, and came to another one, which gave it a run. The first read of
    /// that run, and handed it back as what the worker had left behind, while it was in user code.
    a_host_that_was_left_handed_back_what_another_had_given;
    /// An instance was deleted, and its worker finished a long run for that job. Its host ended; the next one had no instance to
    /// put, and so did not mark the run again.
    a_run_of_a_deleted_instance_was_not_marked_by_its_next_host;
    /// A worker gave a job up that had been made again; its host took the instance away by what it had read before the first
    /// plan, which gave it items. The leader took it for one about to come back, and nobody ran them.
    an_instance_was_taken_away_while_a_plan_gave_it_items;
    /// A worker said goodbye, and a run that was held and that it had never been told of could not be written as handed back.
    /// When its lease ended its attachment went, and it was told that it may go: the run crashed after a clean leave.
    a_goodbye_was_acknowledged_by_the_end_of_a_lease;
    /// The rule's mistake: a worker of four slots owned eight items, of which those of a job without misfires began nothing for
    /// long, since misfires of others had always waited longer.
    a_job_found_no_slot_for_long;
    /// Runs were held on an instance that was deleted, the last of its job. Nobody was left to ask, and its worker, which had
    /// left the job and had never been told of them, kept their slots.
    a_held_run_stayed_with_an_instance_that_was_deleted;
    /// Who hosted the workers of a job whose fires are announced could not write. Another coordinator, which could not lead
    /// without a worker of the job, was elected for it and gave it up, again and again.
    who_cannot_lead_was_elected_again_and_again;
    /// The rule's mistake: a foreign tool removed the mirror of a run whose handler was so slow that it outlasted the world. It
    /// comes back with the next run.
    a_mirror_was_removed_while_its_run_went_on_for_long;
    /// A calendar jumped by a day in the moment between the start of its coordinator and the first event that it heard, from
    /// which on it was watched.
    a_calendar_jumped_before_its_coordinator_heard_anything;
    /// A coordinator that had just come knew of no other, and acknowledged a change by what it had read when it came.
    a_change_was_acknowledged_by_who_had_just_come;
    /// A worker woke late, and what it heard first was the end of its stream: it read on from that, and panicked. (Seed 7008.)
    a_stream_ended_while_its_worker_stood_still;
    /// A removal waited for one run, and another was written meanwhile; it began after the removal, and a disable beside it, had
    /// been answered.
    a_run_joined_those_that_a_removal_waited_for;
}

/// None is forgotten in the folder.
#[test]
fn every_script_that_is_kept_is_played() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("found");
    let files = std::fs::read_dir(folder).unwrap();
    let kept: BTreeSet<String> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(kept, ALL.iter().map(|name| format!("{name}.script")).collect());
}
