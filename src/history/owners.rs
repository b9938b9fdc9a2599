//! Determines what a new assignment changes in the ownership rows: a plain comparison, the same for every kind of
//! database. The writer reads what the database holds of the job, and executes the steps there.

use std::collections::BTreeMap;
use std::sync::Arc;

use rosterd_domain::id::{Generation, InstanceId, Item};
use rosterd_domain::ownership::{Cause, Owned};
use rosterd_domain::time::Time;
use serde::{Deserialize, Serialize};

/// Why an item of a removed job has no owner, in the words of [`Cause::Removed`].
const REMOVED: &str = "the job was removed";

/// An assignment as a coordinator records it, with its reasons as text, so that it can wait on the disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RecordedAssignment {
    pub(super) job: String,
    pub(super) incarnation: String,
    pub(super) generation: u64,
    /// Every owner with its items.
    owners: Vec<(String, Vec<u32>)>,
    /// Why items have changed owners, as far as the recording coordinator saw that.
    causes: BTreeMap<u32, String>,
    /// Why any other item has changed owners.
    otherwise: String,
    /// The job was removed.
    gone: bool,
    /// Whether the leader recorded it.
    led: bool,
}

impl RecordedAssignment {
    pub(super) fn of(owned: &Owned) -> Self {
        let numbers = |items: &Vec<Item>| items.iter().map(|item| item.0).collect();
        Self {
            job: owned.job.as_str().to_owned(),
            incarnation: owned.incarnation.to_string(),
            generation: owned.generation.0,
            owners: owned
                .owners
                .iter()
                .map(|(owner, items)| (owner.as_str().to_owned(), numbers(items)))
                .collect(),
            causes: owned.causes.iter().map(|(item, cause)| (item.0, cause.to_string())).collect(),
            otherwise: owned.otherwise.to_string(),
            gone: owned.otherwise == Cause::Removed,
            led: owned.led,
        }
    }

    fn by_item(&self) -> BTreeMap<u32, &str> {
        self.owners
            .iter()
            .flat_map(|(owner, items)| items.iter().map(move |item| (*item, owner.as_str())))
            .collect()
    }

    fn cause(&self, item: u32) -> &str {
        self.causes.get(&item).unwrap_or(&self.otherwise)
    }
}

/// The assignment of a job that was last written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KnownAssignment {
    pub(super) incarnation: Arc<str>,
    pub(super) generation: Generation,
    pub(super) at: Time,
}

/// A row without an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpenAssignment {
    pub(super) id: i64,
    pub(super) item: Item,
    pub(super) instance: InstanceId,
    pub(super) incarnation: Arc<str>,
    pub(super) generation: Generation,
}

/// One change of the rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AssignmentStep<'a> {
    /// The row ends.
    End { id: i64, why: &'a str },
    /// A row begins.
    Begin { item: Item, instance: &'a str, why: &'a str },
    /// The leader adds the reason to a row that another coordinator has written before.
    Explain { id: i64, why: &'a str },
    /// Stores this as the last written assignment.
    Know,
    /// The job was removed: delete what is known of it.
    Forget,
}

/// The steps from the rows to the assignment. An outdated one, older than the last written one or of a job that was
/// removed since, changes nothing.
pub(super) fn steps<'a>(
    known: Option<&KnownAssignment>,
    open: &[OpenAssignment],
    at: Time,
    owned: &'a RecordedAssignment,
) -> Vec<AssignmentStep<'a>> {
    let is_late = |known: &KnownAssignment| match *known.incarnation == *owned.incarnation {
        true => known.generation.0 > owned.generation,
        false => known.at > at,
    };
    if known.is_some_and(is_late) {
        return Vec::new();
    }
    let mut wanted = owned.by_item();
    let (mut ends, mut explained) = (Vec::new(), Vec::new());
    for row in open {
        let (same_job, item) = (*row.incarnation == *owned.incarnation, row.item.0);
        if same_job && wanted.get(&item) == Some(&row.instance.as_str()) {
            wanted.remove(&item);
            let led = owned.led && row.generation.0 == owned.generation;
            if let Some(why) = owned.causes.get(&item).filter(|_| led) {
                explained.push(AssignmentStep::Explain { id: row.id, why });
            }
        } else {
            ends.push(AssignmentStep::End {
                id: row.id,
                why: if same_job { owned.cause(item) } else { REMOVED },
            });
        }
    }
    let begin =
        |(item, instance)| AssignmentStep::Begin { item: Item(item), instance, why: owned.cause(item) };
    let mut steps: Vec<AssignmentStep<'a>> =
        ends.into_iter().chain(wanted.into_iter().map(begin)).chain(explained).collect();
    steps.push(if owned.gone { AssignmentStep::Forget } else { AssignmentStep::Know });
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use rosterd_domain::id::JobName;

    fn instance(n: u32) -> InstanceId {
        InstanceId::new(format!("10.0.0.{n}@-@w{n}")).unwrap()
    }

    fn owned(generation: u64, owners: &[(u32, &[u32])]) -> Owned {
        let items = |items: &[u32]| items.iter().copied().map(Item).collect();
        Owned {
            job: JobName::new("j").unwrap(),
            incarnation: "first".into(),
            generation: Generation(generation),
            owners: owners.iter().map(|(n, list)| (instance(*n), items(list))).collect(),
            causes: BTreeMap::new(),
            otherwise: Cause::Found,
            led: false,
        }
    }

    fn open(id: i64, item: u32, owner: u32, generation: u64) -> OpenAssignment {
        let (item, instance, incarnation) = (Item(item), instance(owner), "first".into());
        OpenAssignment { id, item, instance, incarnation, generation: Generation(generation) }
    }

    fn known(generation: u64) -> KnownAssignment {
        KnownAssignment { incarnation: "first".into(), generation: Generation(generation), at: Time(5) }
    }

    #[test]
    fn only_what_has_changed_hands_is_written() {
        let mut now = owned(3, &[(1, &[0]), (2, &[1, 2])]);
        now.causes = [(Item(1), Cause::Unowned)].into();
        let rows = [open(1, 0, 1, 1), open(2, 1, 1, 1), open(3, 9, 1, 1)];
        let (one, two, found) = (Cause::Unowned.to_string(), instance(2), Cause::Found.to_string());
        let (one, two, found) = (one.as_str(), two.as_str(), found.as_str());
        let expected = [
            AssignmentStep::End { id: 2, why: one },
            AssignmentStep::End { id: 3, why: found },
            AssignmentStep::Begin { item: Item(1), instance: two, why: one },
            AssignmentStep::Begin { item: Item(2), instance: two, why: found },
            AssignmentStep::Know,
        ];
        assert_eq!(steps(Some(&known(1)), &rows, Time(9), &RecordedAssignment::of(&now)), expected);
        // Recording it again changes nothing.
        let after = [open(1, 0, 1, 1), open(4, 1, 2, 3), open(5, 2, 2, 3)];
        assert_eq!(
            steps(Some(&known(3)), &after, Time(9), &RecordedAssignment::of(&now)),
            [AssignmentStep::Know]
        );
    }

    #[test]
    fn a_job_that_has_gone_has_the_words_of_its_cause() {
        assert_eq!(REMOVED, Cause::Removed.to_string());
    }

    #[test]
    fn an_outdated_assignment_changes_nothing() {
        let rows = [open(1, 0, 1, 4)];
        assert_eq!(
            steps(Some(&known(4)), &rows, Time(9), &RecordedAssignment::of(&owned(3, &[(2, &[0])]))),
            []
        );
        let of_before = Owned { incarnation: "older".into(), ..owned(7, &[(2, &[0])]) };
        assert_eq!(steps(Some(&known(4)), &rows, Time(4), &RecordedAssignment::of(&of_before)), []);
    }

    #[test]
    fn the_leader_explains_what_another_recorded_before() {
        let mut now = owned(4, &[(1, &[0, 1])]);
        (now.led, now.causes) = (true, [(Item(0), Cause::First), (Item(1), Cause::First)].into());
        let rows = [open(1, 0, 1, 4), open(2, 1, 1, 2)];
        let expected = [AssignmentStep::Explain { id: 1, why: "first assignment" }, AssignmentStep::Know];
        assert_eq!(steps(Some(&known(4)), &rows, Time(9), &RecordedAssignment::of(&now)), expected);
    }

    #[test]
    fn a_job_that_was_made_again_starts_again() {
        let again = Owned { incarnation: "second".into(), ..owned(1, &[(1, &[0])]) };
        let (rows, owner) = ([open(1, 0, 1, 4)], instance(1));
        let expected = [
            AssignmentStep::End { id: 1, why: REMOVED },
            AssignmentStep::Begin {
                item: Item(0),
                instance: owner.as_str(),
                why: "found so when the coordinator looked again",
            },
            AssignmentStep::Know,
        ];
        assert_eq!(steps(Some(&known(4)), &rows, Time(9), &RecordedAssignment::of(&again)), expected);
        let gone = Owned { otherwise: Cause::Removed, owners: Vec::new(), ..owned(5, &[]) };
        assert_eq!(
            steps(Some(&known(4)), &rows, Time(9), &RecordedAssignment::of(&gone)),
            [AssignmentStep::End { id: 1, why: REMOVED }, AssignmentStep::Forget]
        );
    }
}
