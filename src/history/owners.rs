//! What a new assignment changes in the rows of who owned what: a plain comparison, the same for every kind of database. The
//! writer reads what `sql` holds of the job, and has the steps carried out there.

use std::collections::BTreeMap;
use std::sync::Arc;

use rosterd_domain::id::{Generation, InstanceId, Item};
use rosterd_domain::ownership::{Cause, Owned};
use rosterd_domain::time::Time;

/// The assignment of a job that was last written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KnownAssignment {
    pub(super) incarnation: Arc<str>,
    pub(super) generation: Generation,
    pub(super) at: Time,
}

/// A row that no end was written of.
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
pub(super) enum Step<'a> {
    /// The row ends.
    End { id: i64, why: &'a Cause },
    /// A row begins.
    Begin { item: Item, instance: &'a InstanceId, why: &'a Cause },
    /// The leader says why a row began that another coordinator wrote before.
    Explain { id: i64, why: &'a Cause },
    /// This is the assignment that was last written.
    Know,
    /// The job has gone: nothing of it is known any more.
    Forget,
}

/// Turns the rows into what is told. One that is told late, after a later one, or of a job that has gone since, changes nothing.
pub(super) fn steps<'a>(
    known: Option<&KnownAssignment>,
    open: &[OpenAssignment],
    at: Time,
    owned: &'a Owned,
) -> Vec<Step<'a>> {
    let is_late = |known: &KnownAssignment| match known.incarnation == owned.incarnation {
        true => known.generation > owned.generation,
        false => known.at > at,
    };
    if known.is_some_and(is_late) {
        return Vec::new();
    }
    let mut wanted: BTreeMap<Item, &InstanceId> = owned.by_item();
    let (mut ends, mut explained) = (Vec::new(), Vec::new());
    for row in open {
        let same_job = row.incarnation == owned.incarnation;
        if same_job && wanted.get(&row.item) == Some(&&row.instance) {
            wanted.remove(&row.item);
            if let Some(why) =
                owned.causes.get(&row.item).filter(|_| owned.led && row.generation == owned.generation)
            {
                explained.push(Step::Explain { id: row.id, why });
            }
        } else {
            let why = if same_job { owned.cause(row.item) } else { &Cause::Removed };
            ends.push(Step::End { id: row.id, why });
        }
    }
    let begins =
        wanted.into_iter().map(|(item, instance)| Step::Begin { item, instance, why: owned.cause(item) });
    let mut steps: Vec<Step<'a>> = ends.into_iter().chain(begins).chain(explained).collect();
    steps.push(if owned.otherwise == Cause::Removed { Step::Forget } else { Step::Know });
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
        let (one, two) = (Cause::Unowned, instance(2));
        let expected = [
            Step::End { id: 2, why: &one },
            Step::End { id: 3, why: &Cause::Found },
            Step::Begin { item: Item(1), instance: &two, why: &one },
            Step::Begin { item: Item(2), instance: &two, why: &Cause::Found },
            Step::Know,
        ];
        assert_eq!(steps(Some(&known(1)), &rows, Time(9), &now), expected);
        // Told again it changes nothing more.
        let after = [open(1, 0, 1, 1), open(4, 1, 2, 3), open(5, 2, 2, 3)];
        assert_eq!(steps(Some(&known(3)), &after, Time(9), &now), [Step::Know]);
    }

    #[test]
    fn one_that_is_told_late_changes_nothing() {
        let rows = [open(1, 0, 1, 4)];
        assert_eq!(steps(Some(&known(4)), &rows, Time(9), &owned(3, &[(2, &[0])])), []);
        let of_before = Owned { incarnation: "older".into(), ..owned(7, &[(2, &[0])]) };
        assert_eq!(steps(Some(&known(4)), &rows, Time(4), &of_before), []);
    }

    #[test]
    fn the_leader_explains_what_another_told_before() {
        let mut now = owned(4, &[(1, &[0, 1])]);
        (now.led, now.causes) = (true, [(Item(0), Cause::First), (Item(1), Cause::First)].into());
        let rows = [open(1, 0, 1, 4), open(2, 1, 1, 2)];
        let expected = [Step::Explain { id: 1, why: &Cause::First }, Step::Know];
        assert_eq!(steps(Some(&known(4)), &rows, Time(9), &now), expected);
    }

    #[test]
    fn a_job_that_was_made_again_begins_anew() {
        let again = Owned { incarnation: "second".into(), ..owned(1, &[(1, &[0])]) };
        let (rows, owner) = ([open(1, 0, 1, 4)], instance(1));
        let expected = [
            Step::End { id: 1, why: &Cause::Removed },
            Step::Begin { item: Item(0), instance: &owner, why: &Cause::Found },
            Step::Know,
        ];
        assert_eq!(steps(Some(&known(4)), &rows, Time(9), &again), expected);
        let gone = Owned { otherwise: Cause::Removed, owners: Vec::new(), ..owned(5, &[]) };
        assert_eq!(
            steps(Some(&known(4)), &rows, Time(9), &gone),
            [Step::End { id: 1, why: &Cause::Removed }, Step::Forget]
        );
    }
}
