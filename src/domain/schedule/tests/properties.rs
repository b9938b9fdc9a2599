//! Properties that hold for any expression, zone and moment.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use proptest::prelude::*;
use proptest::sample::select;

use super::super::{GapPolicy, Schedule};
use super::oracle::Oracle;
use crate::time::Time;

pub(super) const ZONES: [&str; 9] = [
    "UTC",
    "America/New_York",
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "Pacific/Apia",
    "America/Santiago",
    "Asia/Gaza",
    "Asia/Kathmandu",
];

/// A list of up to three values, ranges and steps.
fn list(min: i32, max: i32) -> impl Strategy<Value = String> {
    let value = move || min..=max;
    let part = prop_oneof![
        3 => value().prop_map(|v| v.to_string()),
        2 => (value(), value()).prop_map(|(a, b)| format!("{a}-{b}")),
        1 => (value(), value(), 1..10).prop_map(|(a, b, step)| format!("{a}-{b}/{step}")),
        1 => (value(), 1..=max.min(20)).prop_map(|(a, step)| format!("{a}/{step}")),
        1 => (1..=max.min(20)).prop_map(|step| format!("*/{step}")),
        2 => Just("*".to_owned()),
    ];
    proptest::collection::vec(part, 1..=3).prop_map(|parts| parts.join(","))
}

fn days() -> impl Strategy<Value = (String, String)> {
    let month_part = prop_oneof![
        3 => list(1, 31),
        1 => Just("L".to_owned()),
        1 => Just("LW".to_owned()),
        1 => (0..=30).prop_map(|back| format!("L-{back}")),
        1 => (0..=30).prop_map(|back| format!("L-{back}W")),
        2 => (1..=31).prop_map(|day| format!("{day}W")),
    ];
    let of_month = proptest::collection::vec(month_part, 1..=2).prop_map(|parts| parts.join(","));
    let of_week = prop_oneof![
        3 => list(1, 7),
        1 => Just("L".to_owned()),
        1 => (1..=7).prop_map(|day| format!("{day}L")),
        1 => (1..=7, 1..=4).prop_map(|(day, nth)| format!("{day}#{nth}")),
        1 => select(vec!["mon-fri", "FRI-MON", "Sat", "WEDL", "thu#3"]).prop_map(str::to_owned),
    ];
    prop_oneof![
        2 => Just(("*".to_owned(), "?".to_owned())),
        1 => of_month.prop_map(|days| (days, "?".to_owned())),
        1 => of_week.prop_map(|days| ("?".to_owned(), days)),
        1 => Just(("*".to_owned(), "*".to_owned())),
    ]
}

/// Minutes to days of the week.
pub(super) fn five_fields() -> impl Strategy<Value = String> {
    let hours = prop_oneof![1 => Just("*".to_owned()), 1 => list(0, 23)];
    let months = prop_oneof![2 => Just("*".to_owned()), 1 => list(1, 12)];
    let fields = (list(0, 59), hours, days(), months);
    fields.prop_map(|(m, h, (dom, dow), month)| format!("{m} {h} {dom} {month} {dow}"))
}

fn expression() -> impl Strategy<Value = String> {
    let hours = prop_oneof![1 => Just("*".to_owned()), 1 => list(0, 23)];
    let months = prop_oneof![2 => Just("*".to_owned()), 1 => list(1, 12), 1 => Just("NOV-apr".to_owned())];
    let fields = (list(0, 59), list(0, 59), hours, days(), months);
    fields.prop_map(|(s, m, h, (dom, dow), month)| format!("{s} {m} {h} {dom} {month} {dow}"))
}

/// Half of them near a change of the zone's clock, the others anywhere in thirty years.
pub(super) fn moment(zone: &'static str) -> impl Strategy<Value = Time> {
    let changes: Vec<i64> = TimeZone::get(zone)
        .unwrap()
        .following(Timestamp::from_second(1_290_000_000).unwrap())
        .map(|change| change.timestamp().as_millisecond())
        .take(40)
        .collect();
    let changes = if changes.is_empty() { vec![1_330_000_000_000] } else { changes };
    let near = (select(changes), -10_000_000..10_000_000i64).prop_map(|(change, by)| Time(change + by));
    prop_oneof![near, (1_290_000_000_000..2_240_000_000_000i64).prop_map(Time)]
}

fn case() -> impl Strategy<Value = (String, &'static str, Time, GapPolicy)> {
    let gap = select(vec![GapPolicy::FireAtEnd, GapPolicy::Skip]);
    let place = select(ZONES.to_vec()).prop_flat_map(|zone| (Just(zone), moment(zone)));
    (expression(), place, gap).prop_map(|(expr, (zone, moment), gap)| (expr, zone, moment, gap))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases * 3 / 8))]

    #[test]
    fn nothing_is_missed_and_nothing_is_added((expr, zone, start, gap) in case()) {
        let Ok(schedule) = Schedule::parse(&expr, zone) else { return Ok(()) };
        let schedule = schedule.with_gap(gap);
        let end = Time(start.0 + 2 * 3_600_000);
        let zone = TimeZone::get(zone).unwrap();
        let from = Timestamp::from_second(start.0.div_euclid(1000) + 1).unwrap();
        let expected: Vec<Time> = Oracle::new(&expr, gap)
            .by_second(&zone, from, end.timestamp())
            .into_iter()
            .filter(|t| *t >= from)
            .map(Time::from)
            .collect();
        let found: Vec<Time> = schedule.iter(start).take_while(|t| *t <= end).collect();
        prop_assert_eq!(&found, &expected);
        prop_assert_eq!(schedule.count_between(start, end), found.len() as u64);
        prop_assert_eq!(schedule.last_at_or_before(end, start), found.last().copied());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases * 2))]

    #[test]
    fn fires_only_move_forward_and_match_the_fields((expr, zone, start, _) in case()) {
        let Ok(schedule) = Schedule::parse(&expr, zone) else { return Ok(()) };
        let schedule = schedule.with_gap(GapPolicy::Skip);
        let (oracle, zone) = (Oracle::new(&expr, GapPolicy::Skip), TimeZone::get(zone).unwrap());
        let mut last = start;
        for fire in schedule.upcoming(start, 300) {
            prop_assert!(fire > last, "{} after {}", fire, last);
            prop_assert!(oracle.matches(zone.to_datetime(fire.timestamp())), "{}", fire);
            last = fire;
        }
    }

    #[test]
    fn counting_and_looking_back_agree_with_iterating((expr, zone, start, gap) in case(), n in 1usize..400) {
        let Ok(schedule) = Schedule::parse(&expr, zone) else { return Ok(()) };
        let schedule = schedule.with_gap(gap);
        let fires = schedule.upcoming(start, n);
        let Some(&last) = fires.last() else { return Ok(()) };
        for (until, count) in [(last, fires.len()), (Time(last.0 - 1), fires.len() - 1)] {
            prop_assert_eq!(schedule.count_between(start, until), count as u64);
            prop_assert_eq!(schedule.last_at_or_before(until, start), fires[..count].last().copied());
        }
    }

    #[test]
    fn no_text_makes_it_panic(expr in any::<String>(), zone in any::<String>()) {
        let _ = Schedule::parse(&expr, &zone);
        let _ = Schedule::parse(&expr, "UTC");
    }

    #[test]
    fn no_text_of_the_right_letters_makes_it_panic(
        expr in "(@every |@)?([0-9*/,?LW#A-Zdhmsé-]{1,6} ?){1,8}",
        after in any::<i64>(),
        until in any::<i64>(),
    ) {
        if let Ok(schedule) = Schedule::parse(&expr, "America/New_York") {
            schedule.next(Time(after));
            schedule.count_between(Time(after), Time(until));
            schedule.last_at_or_before(Time(until), Time(after));
        }
    }
}
