//! Seeds that once broke a promise, one for each cause, named by it. Where the cause can be told more shortly, a scene or a
//! test beside the code does.

use crate::play::play;
use crate::script::Script;

#[track_caller]
fn holds(seed: u64) {
    let broken = play(&Script::of(seed), false).broken;
    assert!(broken.is_empty(), "seed {seed}: {broken:#?}");
}

macro_rules! seeds {
    ($($(#[$doc:meta])* $name:ident: $seed:literal;)*) => {
        $($(#[$doc])* #[test] fn $name() {
            holds($seed);
        })*
    };
}

seeds! {
    /// It had been written ahead by a coordinator that died, and the worker came to one whose calendar was 1.9 s behind.
    a_run_of_another_calendar_began_before_its_time: 5041;
    /// What a refused transaction had asked for was read before the leave was written, and arrived after.
    a_worker_that_was_leaving_was_given_runs: 20_124;
    /// A late write of the process before took the node of a coordinator away. In the product no name is used again.
    two_coordinators_had_one_name: 20_128;
    /// A run that had been held was told to a worker that had just said goodbye, and handed back by it at once.
    a_trigger_crossed_a_goodbye: 20_272;
    /// A session that had ended unheard was connected again by the end of another fault, and led on.
    a_session_that_was_over_came_back: 22_177;
    /// A session that was to end unheard was connected again by the end of another fault, wrote, and was ended all the same
    /// as soon as it was out of reach once more: its holder counted with the whole time from that write on.
    a_session_was_over_right_after_it_was_heard: 542;
    /// A job was removed with its runs and made again, while their host was cut off from the store.
    runs_of_a_removed_job_met_those_of_the_next: 20_286;
    /// A run was written ahead of its time, its job removed, and made again before that time.
    a_job_that_was_made_again_fired_in_the_same_second: 21_246;
    /// Who had led the job let the time of a callback pass, after another leader had released the fire.
    a_run_that_was_released_was_skipped: 21_443;
    /// The rule's mistake: a coordinator whose calendar was set back did not believe that, and told of a run by what it
    /// should say; the rule went by the latest that it ever had said.
    a_calendar_that_was_set_back_was_not_believed: 23;
    /// The judge's mistake: a worker that stood still was let go and left standing still for good in one instant, and was
    /// said to have gone on with its run.
    a_worker_was_let_go_for_no_time: 164;
    /// A worker stood still in the very instant in which a run's work was over. When it woke, the handler had its turn before
    /// what would have told it to stop, and took its work for done.
    a_handler_woke_first: 1916;
    /// A worker that was declared dead before its jobs were moved stayed among those whom they had here: a leader without
    /// any worker believed that it had one to ask, and released nothing.
    a_leader_asked_a_worker_that_was_dead_before_its_welcome: 98;
    /// The same, and the instance of one that died while it was being put was left behind.
    an_instance_was_put_while_its_worker_died: 622;
    /// It left within milliseconds of its registration: the instance was put, and nobody knew that it was to be taken away.
    an_instance_was_put_while_its_worker_left: 1264;
    /// It had asked for a job, was told that the job had been removed, and gave it up; then the job was made for what it had
    /// asked, and items were given to it that it did not run.
    a_registration_outlived_its_withdrawal: 68;
    /// Failover was switched on, which the host of a run had not heard when the run was reported as aborted.
    a_run_crashed_right_after_failover_was_switched_on: 1092;
    /// The schedule was changed by a coordinator whose calendar was 0.9 s ahead, and right after by one that was not: between
    /// the two both schedules held, and a due time was counted twice.
    a_schedule_began_before_the_one_that_it_replaced: 2908;
    /// The rule's mistake: of an item that came back into its job a mark from before was dropped and another made in one
    /// write, and the rule saw only that there was one still.
    a_mark_was_dropped_and_another_made: 1684;
    /// A worker that runs what it took over moved to another host: `running` was put again there, `failover` was not.
    the_mark_of_a_take_over_went_with_its_host: 1153;
}
