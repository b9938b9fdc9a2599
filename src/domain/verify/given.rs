//! Assignments as a coordinator writes them into its history when they come into force, and as the audit reads them
//! there again, to find the owner of an item that nobody ran.
//!
//! `generation 7: w has come; now 10.0.0.7@-@w 0-2,5 10.0.0.8@-@v 3-4` is a line for people. Names of instances have no
//! blanks, so a program can read it as well. A line that would be too long contains only a part, and says so.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::owner::Owner;
use crate::id::Item;
use crate::job::MAX_ITEMS;
use crate::time::Time;

/// Longest list that is written, in bytes, since a history keeps many.
const LONGEST: usize = 8 << 10;
/// Text before the list.
const NOW: &str = "; now ";
/// Text after an incomplete list.
const MORE: &str = " …";

/// An assignment that was in force from a time on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// Since when.
    pub at: Time,
    /// Of which job.
    pub job: String,
    /// Which it is.
    pub generation: u64,
    /// The items of each instance, as ranges of first and last number.
    pub owners: Vec<(String, Vec<(u32, u32)>)>,
    /// Whether it is complete: an instance that is not listed has no items.
    pub whole: bool,
}

/// An assignment in words; `owners`: the items of each instance, in order.
pub fn spell<'a>(
    generation: u64,
    why: &str,
    owners: impl IntoIterator<Item = (&'a str, &'a [Item])>,
) -> String {
    let mut text = format!("generation {generation}: {why}");
    let mut list = String::new();
    for (instance, items) in owners.into_iter().filter(|(_, items)| !items.is_empty()) {
        let before = list.len();
        list.push_str(if list.is_empty() { NOW } else { " " });
        let _ = write!(list, "{instance} {}", rows(items));
        if list.len() > LONGEST {
            list.truncate(before);
            list.push_str(if before == 0 { NOW.trim_end() } else { "" });
            list.push_str(MORE);
            break;
        }
    }
    text.push_str(&list);
    text
}

/// `0-2,5`.
pub(crate) fn rows(items: &[Item]) -> String {
    let mut text = String::new();
    let mut rest = items;
    while let Some(first) = rest.first().copied() {
        let long = rest.iter().zip(first.0..).take_while(|(item, next)| item.0 == *next).count().max(1);
        text.push_str(if text.is_empty() { "" } else { "," });
        let _ = match long {
            1 => write!(text, "{first}"),
            _ => write!(text, "{first}-{}", rest[long - 1]),
        };
        rest = &rest[long..];
    }
    text
}

impl Given {
    /// Parses the text of [`spell`]; `None` if it names no instance.
    pub fn read(at: Time, job: &str, text: &str) -> Option<Self> {
        let (what, list) = text.rsplit_once(NOW)?;
        let (generation, _) = what.strip_prefix("generation ")?.split_once(':')?;
        let (list, whole) = match list.strip_suffix(MORE) {
            Some(part) => (part, false),
            None => (list, true),
        };
        let words: Vec<&str> = list.split(' ').collect();
        let owners = words.chunks(2).map(|pair| match pair {
            [instance, items] => Some(((*instance).to_owned(), read_rows(items)?)),
            _ => None,
        });
        Some(Self {
            at,
            job: job.to_owned(),
            generation: generation.parse().ok()?,
            owners: owners.collect::<Option<_>>()?,
            whole,
        })
    }

    fn each(&self) -> BTreeMap<u32, &str> {
        let mut each = BTreeMap::new();
        for (instance, rows) in &self.owners {
            let items = rows.iter().flat_map(|(first, last)| *first..=*last);
            each.extend(items.map(|item| (item, instance.as_str())));
        }
        each
    }
}

fn read_rows(text: &str) -> Option<Vec<(u32, u32)>> {
    let row = |row: &str| {
        let (first, last) = row.split_once('-').unwrap_or((row, row));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        (first <= last && last < MAX_ITEMS).then_some((first, last))
    };
    text.split(',').map(row).collect()
}

/// The time on the clock of a history's lines.
pub fn nanos(at: Time) -> u64 {
    u64::try_from(at.0).unwrap_or_default().saturating_mul(1_000_000)
}

/// The owners of items by these assignments, in order of time, without their runs.
fn by_assignment(given: &[Given]) -> Vec<Owner> {
    let mut held = BTreeMap::<(&str, u32), (&str, u64)>::new();
    let mut owners = Vec::new();
    let mut end = |job: &str, item: u32, (instance, from): (&str, u64), until: Option<u64>| {
        let (worker, instance) = (instance.to_owned(), instance.to_owned());
        owners.push(Owner {
            job: job.to_owned(),
            item,
            worker,
            instance,
            from,
            until,
            first: 0,
            last: 0,
            runs: 0,
        });
    };
    for given in given {
        let (job, at, each) = (given.job.as_str(), nanos(given.at), given.each());
        held.retain(|(of, item), before| {
            let stays = *of != job || each.get(item).map_or(!given.whole, |instance| *instance == before.0);
            if !stays {
                end(of, *item, *before, Some(at));
            }
            stays
        });
        for (item, instance) in each {
            held.entry((job, item)).or_insert((instance, at));
        }
    }
    for ((job, item), last) in held {
        end(job, item, last, None);
    }
    owners
}

/// Adds to the owners that ran something those that owned an item at this time or later by an assignment, and ran
/// nothing of it.
pub(super) fn add_idle(owners: Vec<Owner>, given: &[Given], since: u64) -> Vec<Owner> {
    let mut by_item = BTreeMap::<(String, u32), Vec<Owner>>::new();
    for owner in owners {
        by_item.entry((owner.job.clone(), owner.item)).or_default().push(owner);
    }
    for idle in by_assignment(given) {
        let until = |owner: &Owner| owner.until.unwrap_or(u64::MAX);
        if until(&idle) <= since {
            continue;
        }
        let owners = by_item.entry((idle.job.clone(), idle.item)).or_default();
        let ran = |owner: &Owner| {
            owner.instance == idle.instance && owner.from < until(&idle) && until(owner) >= idle.from
        };
        if !owners.iter().any(|owner| owner.runs > 0 && ran(owner)) {
            owners.push(idle);
        }
    }
    let sorted = by_item.into_values().flat_map(|mut owners| {
        owners.sort_by_key(|owner| owner.from);
        owners
    });
    sorted.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(owners: &[(&str, &[u32])]) -> String {
        let owners: Vec<(&str, Vec<Item>)> =
            owners.iter().map(|(name, items)| (*name, items.iter().copied().map(Item).collect())).collect();
        spell(7, "w has come", owners.iter().map(|(name, items)| (*name, items.as_slice())))
    }

    fn given(seconds: i64, owners: &[(&str, &[u32])]) -> Given {
        Given::read(Time::from_seconds(seconds), "j", &spelled(owners)).unwrap()
    }

    #[test]
    fn what_is_written_for_people_is_read_again() {
        let text = spelled(&[("a@-@1", &[0, 1, 2, 5]), ("[::1]:9@-@2", &[3]), ("idle@-@3", &[])]);
        assert_eq!(text, "generation 7: w has come; now a@-@1 0-2,5 [::1]:9@-@2 3");
        let read = Given::read(Time(5), "j", &text).unwrap();
        let rows = |name: &str, rows: &[(u32, u32)]| (name.to_owned(), rows.to_vec());
        assert_eq!(read.owners, [rows("a@-@1", &[(0, 2), (5, 5)]), rows("[::1]:9@-@2", &[(3, 3)])]);
        assert_eq!((read.at, read.generation, read.whole), (Time(5), 7, true));
    }

    #[test]
    fn what_names_nobody_or_too_much_is_not_read() {
        for text in [
            "generation 7: w has come",
            "generation 7: w has come; now a@-@1",
            "generation 7: w has come; now a@-@1 2-1",
            "generation 7: w has come; now a@-@1 0-4000000000",
            "generation 7: w has come; now a@-@1 0-100000",
            "generation 7: w has come; now a@-@1 0,,1",
            "generation x: ; now a@-@1 0",
            "items; now a@-@1 0",
        ] {
            assert_eq!(Given::read(Time(5), "j", text), None, "{text}");
        }
    }

    #[test]
    fn a_list_of_8_kib_and_the_last_item_of_the_largest_job_are_told() {
        let name = |length: usize| "a".repeat(length);
        let fits = given(5, &[(&name(8_184), &[0])]);
        assert!(fits.whole && fits.owners.len() == 1);
        assert!(spelled(&[(&name(8_185), &[0])]).ends_with(MORE));
        assert_eq!(given(5, &[("a", &[99_998, 99_999])]).owners[0].1, [(99_998, 99_999)]);
    }

    #[test]
    fn a_long_one_says_a_part_of_it() {
        let every_other: Vec<u32> = (0..500).map(|item| 2 * item).collect();
        let names: Vec<String> = (0..20).map(|n| format!("host@-@{n}")).collect();
        let owners: Vec<(&str, &[u32])> =
            names.iter().map(|name| (name.as_str(), every_other.as_slice())).collect();
        let text = spelled(&owners);
        assert!(text.len() < LONGEST + 100 && text.ends_with(" …"), "{text}");
        let read = Given::read(Time(5), "j", &text).unwrap();
        assert!(!read.whole && (1..20).contains(&read.owners.len()), "{}", read.owners.len());
        let alone: Vec<u32> = (0..5_000).map(|item| 2 * item).collect();
        assert_eq!(Given::read(Time(5), "j", &spelled(&[("a", alone.as_slice())])), None);
    }

    fn owner(item: u32, instance: &str, seconds: [u64; 2], runs: usize) -> Owner {
        let [from, until] = seconds.map(|at| at * 1_000_000_000);
        let (first, last) = if runs > 0 { (1, runs as u64) } else { (0, 0) };
        let (job, instance) = ("j".to_owned(), instance.to_owned());
        let until = (until > 0).then_some(until);
        Owner { job, item, worker: instance.clone(), instance, from, until, first, last, runs }
    }

    #[test]
    fn an_owner_that_ran_nothing_is_listed() {
        let given = [
            given(10, &[("a", &[0, 1])]),
            given(20, &[("a", &[0]), ("b", &[1])]),
            given(30, &[("c", &[0, 1])]),
            given(40, &[("c", &[1])]),
        ];
        // A run that began in time may end later.
        let ran = vec![owner(0, "a", [12, 25], 3), owner(1, "b", [21, 33], 1)];
        let found = add_idle(ran.clone(), &given, 0);
        let expected = [
            ran[0].clone(),
            owner(0, "c", [30, 40], 0),
            owner(1, "a", [10, 20], 0),
            ran[1].clone(),
            owner(1, "c", [30, 0], 0),
        ];
        assert_eq!(found, expected);
        // Ownership that had ended by then is left out.
        assert_eq!(add_idle(Vec::new(), &given, 30_000_000_000).len(), 2);
    }

    #[test]
    fn owners_that_a_partial_row_omits_keep_what_they_had() {
        let part = Given { whole: false, ..given(20, &[("a", &[0])]) };
        let found = add_idle(Vec::new(), &[given(10, &[("b", &[0, 1])]), part], 0);
        assert_eq!(found, [owner(0, "b", [10, 20], 0), owner(0, "a", [20, 0], 0), owner(1, "b", [10, 0], 0)]);
    }
}
