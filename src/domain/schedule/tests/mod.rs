//! What a schedule promises, checked against Quartz's own fire times and against naive implementations of the rules.

mod change_days;
mod forms;
mod guide;
mod oracle;
mod properties;
mod quartz;
mod spans;

use super::*;

fn at(text: &str) -> Time {
    Time::parse(text).unwrap()
}

fn schedule(expr: &str, zone: &str) -> Schedule {
    Schedule::parse(expr, zone).unwrap_or_else(|error| panic!("{expr} in {zone}: {error}"))
}

fn texts(fires: &[Time]) -> Vec<String> {
    fires.iter().map(Time::to_string).collect()
}

/// The error without the proposal.
fn why(refusal: &ScheduleError) -> &ScheduleError {
    match refusal {
        ScheduleError::Meant { why, .. } => why,
        plain => plain,
    }
}

#[test]
fn an_error_says_what_to_write_instead() {
    let refusal = |expr: &str, zone: &str| Schedule::parse(expr, zone).unwrap_err().to_string();
    assert_eq!(
        refusal("0 0 24 * * ?", "UTC"),
        "hours \"24\": it is out of range; \
         allowed: 0-23, *, lists 8,20, ranges 9-17 or 22-2, steps 0/2 up to 23; did you mean \"0 0 0 * * ?\"?"
    );
    let fields = ["seconds", "minutes", "hours", "day-of-month", "month", "day-of-week", "year"];
    for (n, name) in fields.iter().enumerate() {
        let mut expr = ["0", "0", "0", if n == 5 { "?" } else { "1" }, "1", "?", "2030"];
        expr[n] = "+";
        let told = refusal(&expr.join(" "), "UTC");
        assert!(told.starts_with(&format!("{name} \"+\": ")), "{told}");
    }
    assert_eq!(
        refusal("0 0 0 30 2 ?", "UTC"),
        "the cron expression \"0 0 0 30 2 ?\" never fires: \
         no date from 1970 to 2099 has this day, month and year; did you mean \"0 0 0 L 2 ?\"?"
    );
    assert_eq!(
        refusal("0 0 0 13 * FRI", "UTC"),
        "day-of-month \"13\" and day-of-week \"FRI\": \
         exactly one of the two must be ?, the other says the days (every day: * in one or in both)"
    );
    for list in ["6L,2", "6#3,2"] {
        let told = refusal(&format!("0 0 0 ? * {list}"), "UTC");
        assert!(told.contains("L and # cannot be part of a list"), "{told}");
    }
    assert!(
        refusal("0 0 0 ? * ?", "UTC").starts_with("day-of-month \"?\" and day-of-week \"?\": exactly one")
    );
    assert_eq!(
        refusal("* * * *", "UTC"),
        "the cron expression has 4 fields: write 5, 6 or 7, \
         [seconds] minutes hours day-of-month month day-of-week [year]; or @daily and the like, or @every 5m"
    );
    assert_eq!(
        refusal("@dayly", "UTC"),
        "there is no \"@dayly\": write @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually, \
         @every 5m, or fields; did you mean \"@daily\"?"
    );
    assert_eq!(
        refusal("@every 500ms", "UTC"),
        "@every \"500ms\": it is shorter than a second; write a span of 1s or more: 90s, 5m, 1h30m; \
         did you mean \"@every 1s\"?"
    );
    assert_eq!(
        refusal("* * * * * ?", "Mars/Olympus"),
        "\"Mars/Olympus\" is not a known time zone: write UTC, GMT+8:00 or an IANA name such as Europe/Berlin"
    );
    assert_eq!(
        refusal(&"0,".repeat(200), "UTC"),
        "the cron expression has 400 bytes: at most 256 are allowed"
    );
}

#[test]
fn what_never_fires_is_refused() {
    for never in [
        "0 0 0 30 2 ?",
        "0 0 0 31 4,6,9 ?",
        "0 0 0 29 2 ? 2027",
        "0 0 0 L-30 2,4 ?",
        "0 0 0 ? 2 6#5 2026",
        "0 0 0 31W 6 ?",
    ] {
        let refusal = Schedule::parse(never, "UTC").unwrap_err();
        assert!(matches!(why(&refusal), ScheduleError::NeverFires { .. }), "{never}: {refusal}");
    }
    // A year in the past is accepted, although its fires are over.
    assert_eq!(schedule("0 0 0 1 1 ? 1999", "UTC").next(at("2026-01-01T00:00:00Z")), None);
}

#[test]
fn a_zone_may_be_a_fixed_distance_as_java_writes_it() {
    let noon = |zone: &str| {
        let schedule = schedule("0 0 12 * * ?", zone);
        (schedule.zone().to_owned(), schedule.next(Time::from_seconds(0)).unwrap().0 / 1000)
    };
    for zone in ["GMT+8", "GMT+8:00", "GMT+08:00", "GMT+0800"] {
        assert_eq!(noon(zone), ("GMT+08:00".to_owned(), 4 * 3600), "{zone}");
    }
    assert_eq!(noon("GMT+10"), ("GMT+10:00".to_owned(), 2 * 3600));
    assert_eq!(noon("GMT+800"), ("GMT+08:00".to_owned(), 4 * 3600));
    assert_eq!(noon("GMT-3:30"), ("GMT-03:30".to_owned(), 15 * 3600 + 1800));
    assert_eq!(noon("GMT").1, 12 * 3600);
    for zone in
        ["GMT+24", "GMT+8:60", "GMT+8:0", "GMT+", "GMT+8:00:00", "GMT+123456", "GMT+-8", "UTC+8", "GMT+é8"]
    {
        assert!(Schedule::parse("0 0 12 * * ?", zone).is_err(), "{zone}");
    }
}

/// At the last reading that the clock skips: the result is neither that instant nor the one before the gap's end.
#[test]
fn a_skipped_reading_at_the_end_of_a_gap_comes_the_next_day() {
    let last = schedule("59 59 2 * * ?", "America/New_York").with_gap(GapPolicy::Skip);
    assert_eq!(last.gap(), GapPolicy::Skip);
    assert_eq!(schedule("59 59 2 * * ?", "UTC").gap(), GapPolicy::FireAtEnd);
    assert_eq!(last.next(at("2026-03-08T05:00:00Z")), Some(at("2026-03-09T06:59:59Z")));
}

#[test]
fn an_expression_of_256_bytes_is_read_and_a_longer_one_is_not() {
    let padded = |length: usize| format!("{:<length$}", "0 0 12 * * ?");
    assert!(Schedule::parse(&padded(256), "UTC").is_ok());
    let refused = Schedule::parse(&padded(257), "UTC").unwrap_err();
    assert_eq!(refused, ScheduleError::TooLong { length: 257, max: 256 });
}

#[test]
fn a_schedule_shows_what_it_is() {
    let shown = format!("{:?}", schedule("0 0 12 * * ?", "Asia/Tokyo"));
    assert_eq!(shown, "Schedule(\"0 0 12 * * ?\" in Asia/Tokyo, gaps: FireAtEnd)");
}

#[test]
fn zones_that_depend_on_the_machine_are_refused() {
    for zone in [
        "",
        "localtime",
        "posixrules",
        "Etc/Unknown",
        "+01:00",
        "right/UTC",
        "../etc/passwd",
        "Europe/Berlin\0",
    ] {
        assert!(Schedule::parse("* * * * * ?", zone).is_err(), "{zone:?} was accepted");
    }
    assert_eq!(schedule("* * * * * ?", "europe/berlin").zone(), "Europe/Berlin");
}

#[test]
fn schedules_are_equal_by_what_was_asked_for() {
    let noon = schedule("0 0 12 * * ?", "UTC");
    assert_eq!(noon, schedule("0 0 12 * * ?", "utc"));
    assert_ne!(noon, schedule("0 0 12 * * ?", "Europe/Berlin"));
    assert_ne!(noon, schedule("0 0 12 ? * *", "UTC"));
    assert_ne!(noon, noon.clone().with_gap(GapPolicy::Skip));
    assert_eq!((noon.expression(), noon.gap()), ("0 0 12 * * ?", GapPolicy::FireAtEnd));
}

#[test]
fn the_next_fire_is_strictly_later_even_within_a_second() {
    let every_second = schedule("* * * * * ?", "UTC");
    let next = |millis| every_second.next(Time(millis)).map(|time| time.0);
    assert_eq!([next(1999), next(2000), next(2001)], [Some(2000), Some(3000), Some(3000)]);
    assert_eq!([next(-1), next(-5000), next(i64::MIN)], [Some(0), Some(0), Some(0)]);
    assert_eq!(next(at("2099-12-31T23:59:58Z").0), Some(at("2099-12-31T23:59:59Z").0));
    assert_eq!([next(at("2099-12-31T23:59:59Z").0), next(i64::MAX)], [None, None]);
}

#[test]
fn the_last_year_ends_in_every_zone() {
    for zone in ["Pacific/Kiritimati", "America/Adak", "America/New_York"] {
        for expr in ["* * * * * ?", "0 0 12 L * ?"] {
            let schedule = schedule(expr, zone);
            let last = schedule.last_at_or_before(Time(i64::MAX), at("2099-06-01T00:00:00Z")).unwrap();
            assert_eq!(schedule.next(last.minus(std::time::Duration::from_millis(1))), Some(last));
            assert_eq!(schedule.next(last), None);
        }
    }
}

#[test]
fn a_day_that_moved_to_a_weekday_keeps_all_its_times() {
    // 15 March 2026 is a Sunday. Quartz forgets the second time after it has moved the day away from the 15th.
    let twice = schedule("0 0 8,12 15W 3 ?", "UTC");
    assert_eq!(
        texts(&twice.upcoming(at("2026-03-01T00:00:00Z"), 3)),
        ["2026-03-16T08:00:00Z", "2026-03-16T12:00:00Z", "2027-03-15T08:00:00Z"]
    );
}

/// Days that are named twice, in different ways, fire once.
#[test]
fn a_day_that_is_named_twice_is_one_day() {
    // January 2026 ends on a Saturday, August 2026 begins with one.
    for (days, next) in [
        ("31,L", "2026-01-31"),
        ("29,L-2", "2026-01-29"),
        ("30,LW", "2026-01-30"),
        ("30,31W", "2026-01-30"),
        ("31W,LW", "2026-01-30"),
        ("L-1,31W", "2026-01-30"),
    ] {
        let schedule = schedule(&format!("0 0 12 {days} * ?"), "UTC");
        let fires = schedule.next(at("2026-01-12T00:00:00Z"));
        assert_eq!(fires, Some(at(&format!("{next}T12:00:00Z"))), "{days}");
    }
    for days in ["1W,2W", "1W,3,2W"] {
        let august = schedule(&format!("0 0 12 {days} * ?"), "UTC").next(at("2026-08-01T00:00:00Z"));
        assert_eq!(august, Some(at("2026-08-03T12:00:00Z")), "{days}");
    }
}

#[test]
fn a_step_is_as_long_as_its_field_at_most() {
    for (largest, larger) in [
        ("0/59 0 0 * * ?", "0/60 0 0 * * ?"),
        ("0 0/59 0 * * ?", "0 0/60 0 * * ?"),
        ("0 0 0/23 * * ?", "0 0 0/24 * * ?"),
        ("0 0 0 1/31 * ?", "0 0 0 1/32 * ?"),
        ("0 0 0 1 1/12 ?", "0 0 0 1 1/13 ?"),
        ("0 0 0 ? * 1/7", "0 0 0 ? * 1/8"),
    ] {
        assert!(Schedule::parse(largest, "UTC").is_ok(), "{largest}");
        let refused = Schedule::parse(larger, "UTC").unwrap_err();
        assert!(matches!(why(&refused), ScheduleError::Field { .. }), "{larger}: {refused}");
    }
}

/// Asked at the very second at which the clock is set back: readings that it repeats have fired already.
#[test]
fn what_a_clock_shows_again_has_fired() {
    let schedule = schedule("0 30 2 * * ?", "Europe/Berlin");
    for asked in
        ["2026-10-25T00:30:00Z", "2026-10-25T00:59:59Z", "2026-10-25T01:00:00Z", "2026-10-25T01:00:01Z"]
    {
        assert_eq!(schedule.next(at(asked)), Some(at("2026-10-26T01:30:00Z")), "{asked}");
    }
}
