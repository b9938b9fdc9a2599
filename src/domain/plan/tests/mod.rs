//! Tests of the planners with every possible input: every plan passes the checker, planning again changes nothing, an
//! hour of trouble loses no scheduled time, and the golden scripts hold what people may read.

mod ahead;
mod assign;
mod checker;
mod golden;
mod guards;
mod hour;
mod leap;
mod properties;
mod speed;
mod spoilt;
mod unattended;
mod world;

#[test]
fn a_host_reports_for_workers_that_left_what_they_do_not() {
    use super::Reported;
    use crate::id::Version;
    use crate::item::Outcome;

    assert!(Reported::HandedBackByHost(Version(3)).is_left() && !Reported::Forgotten(Version(3)).is_left());
    assert_eq!(Reported::Forgotten(Version(3)).spoken_for(), Some(Version(3)));
    assert!(!Reported::HandedBackByHost(Version(3)).is_of_worker() && !Reported::Skipped.is_of_worker());
    assert!(!Reported::Forgotten(Version(3)).is_of_worker());
    assert!(Reported::Aborted.is_of_worker() && Reported::HandedBack.is_of_worker());
    assert!(!Reported::HandedBack.is_left() && !Reported::Done(Outcome::Succeeded).is_left());
}
