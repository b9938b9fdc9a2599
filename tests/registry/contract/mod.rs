//! The behavior that all backends must share.

mod guards;
mod hints;
mod life;
mod order;
mod sessions;
mod writes;

/// One test per behavior and backend.
macro_rules! contract {
    ($($room:ident: $($behaviour:ident),+;)+) => {
        contract!(@backend memory, Memory, $($room: $($behaviour),+;)+);
        contract!(@backend embedded, Embedded, $($room: $($behaviour),+;)+);
        contract!(@backend zookeeper, Single, $($room: $($behaviour),+;)+);
        contract!(@backend ensemble, Three, $($room: $($behaviour),+;)+);
    };
    (@backend $name:ident, $backend:ident, $($room:ident: $($behaviour:ident),+;)+) => {
        mod $name {
            $(mod $room {
                $(#[tokio::test]
                async fn $behaviour() {
                    let mut backend = <crate::backend::$backend as crate::backend::Backend>::new().await;
                    super::super::$room::$behaviour(&mut backend).await;
                })+
            })+
        }
    };
}

contract! {
    guards: each_guard_holds_or_refuses, a_refused_transaction_changes_nothing, a_made_again_job_is_another;
    writes: a_new_job_has_these_nodes, each_write_has_its_form, records_are_written_at_the_version_read,
        mirrors_are_not_a_precondition, what_was_announced_is_read, a_mirror_of_an_item_without_record_is_dropped, versions_count,
        servers_keep_disabled, leadership_is_a_lock, a_trigger_waits_once, attachments_are_fenced,
        what_was_written_is_read, nothing_is_written_below_a_job_that_is_not_there;
    hints: decisions_are_told_and_run_state_is_not, jobs_and_coordinators_are_told_to_all,
        hints_that_wait_are_one, an_unwatched_job_is_quiet, another_session_is_told;
    sessions: ephemerals_end_with_their_session, a_take_over_moves_the_ephemerals,
        no_two_sessions_have_one_name, what_is_mine_is_known;
    life: a_job_ends_in_two_steps, names_of_any_script_stand_in_paths, a_live_job_is_not_swept, tokens_rise_over_removal,
        an_end_needs_the_incarnation, attachments_come_and_go, a_prepared_job_is_seen_when_it_is_revealed,
        a_job_that_is_renewed_is_another_to_all_who_knew_it,
        what_is_left_of_a_prepared_job_is_swept, a_numbering_raises_tokens;
    order: transactions_are_applied_in_the_order_of_hand_over, a_read_sees_what_was_acknowledged,
        a_dropped_future_is_still_a_transaction, revisions_grow, a_large_job_is_read_and_swept;
}
