//! Notations beyond Quartz's: each is equivalent to another text, and a span is exact whatever clocks do.

use proptest::prelude::*;
use proptest::sample::select;

use super::super::form::MACROS;
use super::super::{GapPolicy, Schedule};
use super::properties::{ZONES, five_fields, moment};
use super::{at, schedule, texts};
use crate::time::Time;

#[test]
fn the_text_is_kept_as_it_was_written() {
    for text in ["0 2 * * *", " @Daily ", "@every 1h30m", "0 0 2 * * *"] {
        assert_eq!(schedule(text, "Europe/Berlin").expression(), text);
    }
}

#[test]
fn every_day_may_be_said_twice() {
    let twice = schedule("0 0 2 * * *", "Europe/Berlin").upcoming(at("2026-03-28T00:00:00Z"), 3);
    assert_eq!(twice, schedule("0 0 2 * * ?", "Europe/Berlin").upcoming(at("2026-03-28T00:00:00Z"), 3));
    assert!(Schedule::parse("0 0 2 * * L", "UTC").is_err() && Schedule::parse("0 0 2 1 * *", "UTC").is_err());
}

#[test]
fn macros_fire_when_their_names_say() {
    let next = |text: &str| schedule(text, "UTC").next(at("2026-11-25T12:00:00Z")).unwrap().to_string();
    assert_eq!(next("@hourly"), "2026-11-25T13:00:00Z");
    assert_eq!(next("@daily"), "2026-11-26T00:00:00Z");
    assert_eq!(next("@midnight"), "2026-11-26T00:00:00Z");
    assert_eq!(next("@weekly"), "2026-11-29T00:00:00Z");
    assert_eq!(next("@monthly"), "2026-12-01T00:00:00Z");
    assert_eq!(next("@yearly"), "2027-01-01T00:00:00Z");
    assert_eq!(next("@annually"), "2027-01-01T00:00:00Z");
}

/// The time at which it began to run does not matter: every caller gets the same.
#[test]
fn a_span_is_counted_from_the_epoch_in_every_zone() {
    let sevens = ["UTC", "Asia/Kathmandu", "GMT+8:00"].map(|zone| schedule("@every 7m", zone));
    for after in ["2026-11-25T12:00:00Z", "2026-11-25T12:03:00.5Z"] {
        let all = sevens.each_ref().map(|sevens| texts(&sevens.upcoming(at(after), 2)));
        assert_eq!(all[0], ["2026-11-25T12:06:00Z", "2026-11-25T12:13:00Z"]);
        assert!(all.iter().all(|one| *one == all[0]), "{all:?}");
    }
    let weeks = schedule("@every 7d", "Europe/Berlin").next(at("2026-11-25T12:00:00Z")).unwrap();
    assert_eq!(weeks.to_string(), "2026-11-26T00:00:00Z");
}

#[test]
fn a_span_ends_with_the_years_of_schedules() {
    let seconds = schedule("@every 1s", "Pacific/Kiritimati");
    assert_eq!(seconds.count_between(Time(i64::MIN), Time(i64::MAX)), 4_102_444_800);
    assert_eq!(seconds.last_at_or_before(Time(i64::MAX), Time(0)), Some(at("2099-12-31T23:59:59Z")));
    assert_eq!(seconds.next(at("2099-12-31T23:59:59Z")), None);
    assert_eq!([-1, i64::MIN].map(|before| seconds.next(Time(before))), [Some(Time(0)); 2]);
    let once = schedule("@every 4102444799s", "UTC");
    assert_eq!(once.upcoming(Time(0), 2), [at("2099-12-31T23:59:59Z")]);
    assert_eq!(schedule("@every 40000d", "UTC").next(Time(0)), Some(at("2079-07-08T00:00:00Z")));
}

#[test]
fn the_busiest_minute_of_a_span_is_known() {
    for (text, most) in
        [("@every 1s", 60), ("@every 7s", 9), ("@every 45s", 2), ("@every 1m", 1), ("@every 5d", 1)]
    {
        assert_eq!(schedule(text, "UTC").fires_per_minute(), most, "{text}");
    }
}

proptest! {
    #[test]
    fn five_fields_are_six_with_seconds_of_nothing(
        fields in five_fields(),
        (zone, start) in select(ZONES.to_vec()).prop_flat_map(|zone| (Just(zone), moment(zone))),
        gap in select(vec![GapPolicy::FireAtEnd, GapPolicy::Skip]),
    ) {
        let six = Schedule::parse(&format!("0 {fields}"), zone);
        let five = Schedule::parse(&fields, zone);
        prop_assert_eq!(five.is_ok(), six.is_ok(), "{}", fields);
        if let (Ok(five), Ok(six)) = (five, six) {
            let (five, six) = (five.with_gap(gap), six.with_gap(gap));
            same(&five, &six, start)?;
        }
    }

    #[test]
    fn a_macro_is_what_it_stands_for(
        (name, fields) in select(MACROS.to_vec()),
        (zone, start) in select(ZONES.to_vec()).prop_flat_map(|zone| (Just(zone), moment(zone))),
        gap in select(vec![GapPolicy::FireAtEnd, GapPolicy::Skip]),
    ) {
        let parsed = |text| schedule(text, zone).with_gap(gap);
        same(&parsed(name), &parsed(fields), start)?;
    }

    #[test]
    fn steps_of_a_span_are_exact_where_the_clock_changes_too(
        seconds in prop_oneof![1..120u32, 1..200_000u32],
        (zone, start) in select(ZONES.to_vec()).prop_flat_map(|zone| (Just(zone), moment(zone))),
        gap in select(vec![GapPolicy::FireAtEnd, GapPolicy::Skip]),
        n in 1usize..300,
    ) {
        let every = schedule(&format!("@every {seconds}s"), zone).with_gap(gap);
        let step = i64::from(seconds) * 1000;
        let fires = every.upcoming(start, n);
        prop_assert_eq!(fires.len(), n);
        prop_assert!(fires[0] > start && fires[0].0 - start.0 <= step, "{} after {}", fires[0], start);
        prop_assert!(fires.iter().all(|fire| fire.0 % step == 0), "anchored elsewhere");
        prop_assert!(fires.windows(2).all(|pair| pair[1].0 - pair[0].0 == step));
        let last = fires[n - 1];
        prop_assert_eq!(every.count_between(start, last), n as u64);
        prop_assert_eq!(every.count_between(start, Time(last.0 - 1)), n as u64 - 1);
        prop_assert_eq!(every.last_at_or_before(Time(last.0 + step - 1), start), Some(last));
    }
}

fn same(one: &Schedule, other: &Schedule, start: Time) -> Result<(), TestCaseError> {
    let fires = one.upcoming(start, 40);
    prop_assert_eq!(&fires, &other.upcoming(start, 40));
    let last = fires.last().copied().unwrap_or(start);
    prop_assert_eq!(one.count_between(start, last), other.count_between(start, last));
    prop_assert_eq!(one.last_at_or_before(last, start), other.last_at_or_before(last, start));
    prop_assert_eq!(one.fires_per_minute(), other.fires_per_minute());
    Ok(())
}
