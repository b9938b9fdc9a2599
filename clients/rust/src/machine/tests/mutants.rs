//! Each guard of the client switched off in turn: the test that is named for it fails, and with the guard it holds.

use std::panic::catch_unwind;

use super::{leave, start, stream};
use crate::mutants;

/// The guards, and the tests that depend on each.
const CAUGHT: &[(&str, fn())] = &[
    (mutants::LEASE_FROM_ACK, stream::the_lease_counts_from_when_the_acknowledged_heartbeat_was_sent),
    (mutants::LEASE_FROM_WELCOME, start::no_start_before_a_late_welcome_is_renewed),
    (mutants::LEASE_ENDLESS, stream::a_stream_that_talks_but_does_not_renew_is_left_at_the_lease_end),
    (mutants::START_WITHOUT_LEASE, start::no_start_before_a_late_welcome_is_renewed),
    (mutants::TOKENS_UNCHECKED, start::every_branch_of_the_check),
    (mutants::TRIGGERS_DROPPED, start::every_branch_of_the_check),
    (
        mutants::LEFT_STREAMS_HEARD,
        stream::the_old_stream_is_closed_before_the_new_one_and_its_frames_are_ignored,
    ),
    (mutants::OCCUPIED_ITEMS_START, start::every_branch_of_the_check),
    (mutants::OCCUPIED_ITEMS_START, stream::another_identity_fences_everything_in_flight),
    (mutants::STREAMS_UNNUMBERED, stream::hello_numbers_the_stream_and_resumes_with_what_is_in_flight),
    (mutants::HELLO_FORGETS_RUNS, stream::hello_numbers_the_stream_and_resumes_with_what_is_in_flight),
    (mutants::LEAVE_NOT_REPEATED, leave::a_stream_that_ends_while_draining_is_opened_again_and_asked_again),
];

#[test]
fn every_guard_that_is_switched_off_is_noticed() {
    for (bug, what) in mutants::ALL {
        assert!(CAUGHT.iter().any(|(of, _)| of == bug), "no test is named for {bug}: {what}");
    }
    for (bug, test) in CAUGHT {
        test();
        mutants::switch(Some(bug));
        let noticed = catch_unwind(*test).is_err();
        mutants::switch(None);
        assert!(noticed, "{bug} is not noticed");
    }
}
