use std::collections::BTreeMap;

use rosterd_domain::id::Generation;
use rosterd_domain::ownership::{Cause, Owned, Standing};

use super::*;
use crate::{EventKind, OwnerFilter, OwnerRow};

const DAY: Duration = Duration::from_secs(86_400);

fn worker(n: u32) -> InstanceId {
    InstanceId::new(format!("10.0.0.{n}@-@w-{n}")).unwrap()
}

/// Item `i` is owned by worker `owners[i]`, from generation `generation` on.
fn owned(generation: u64, owners: &[u32], causes: &[(u32, Cause)]) -> Owned {
    let mut lists: BTreeMap<InstanceId, Vec<Item>> = BTreeMap::new();
    for (item, owner) in (0..).zip(owners) {
        lists.entry(worker(*owner)).or_default().push(Item(item));
    }
    Owned {
        job: job(),
        incarnation: "first".into(),
        generation: Generation(generation),
        owners: lists.into_iter().collect(),
        causes: causes.iter().map(|(item, cause)| (Item(*item), cause.clone())).collect(),
        otherwise: Cause::Found,
        led: true,
    }
}

impl Desk {
    fn own(&mut self, second: i64, owned: &Owned) {
        self.recorder.owned(at(second), owned);
        self.write();
    }

    async fn owners(&self, item: Option<u32>, span: Option<[i64; 2]>) -> Vec<OwnerRow> {
        let filter = OwnerFilter {
            job: job(),
            item: item.map(Item),
            from: span.map(|[from, _]| at(from)),
            to: span.map(|[_, to]| at(to)),
        };
        self.reader.owners(filter, Page { size: 0, token: None }).await.unwrap().0
    }

    async fn rows(&self, item: Option<u32>, span: Option<[i64; 2]>) -> Vec<String> {
        let second = |time: Time| (time.0 / 1000) - TODAY;
        let row = |row: OwnerRow| {
            let to = row.to.map_or("now".to_owned(), |to| second(to).to_string());
            format!(
                "{} {} {}..{to} ({}) ({})",
                row.item,
                row.instance.worker().unwrap(),
                second(row.from),
                row.reason,
                row.end_reason
            )
        };
        self.owners(item, span).await.into_iter().map(row).collect()
    }
}

fn first(items: u32) -> Vec<(u32, Cause)> {
    (0..items).map(|item| (item, Cause::First)).collect()
}

#[tokio::test]
async fn the_owners_of_items_are_returned_with_the_reasons_of_changes() {
    let mut desk = Desk::new();
    desk.own(10, &owned(1, &[1, 2], &first(2)));
    let gone = Cause::Owner(worker(2), Standing::Gone);
    desk.own(20, &owned(2, &[1, 1], &[(1, gone)]));
    desk.own(20, &owned(2, &[1, 1], &[]));
    let expected = [
        "1 w-1 20..now (10.0.0.2@-@w-2 has gone) ()",
        "1 w-2 10..20 (first assignment) (10.0.0.2@-@w-2 has gone)",
        "0 w-1 10..now (first assignment) ()",
    ];
    assert_eq!(desk.rows(None, None).await, expected);
    assert_eq!(desk.rows(Some(0), None).await, expected[2..]);
    assert_eq!(
        desk.rows(None, Some([12, 20])).await,
        expected[1..],
        "ownerships that began before the span and continued"
    );
    assert_eq!(
        desk.rows(None, Some([20, 30])).await,
        [expected[0], expected[2]],
        "an ownership that had ended is not included"
    );
    // It survives a restart, and continues.
    let mut desk = desk.again();
    desk.own(40, &Owned { led: false, ..owned(4, &[1, 3], &[]) });
    let seen = "found so when the coordinator looked again";
    assert_eq!(desk.rows(Some(1), Some([40, 50])).await, [format!("1 w-3 40..now ({seen}) ()")]);
}

#[tokio::test]
async fn a_removed_job_leaves_no_owner_and_one_made_again_starts_again() {
    let mut desk = Desk::new();
    desk.own(10, &owned(5, &[1], &first(1)));
    desk.own(20, &Owned { otherwise: Cause::Removed, ..owned(6, &[], &[]) });
    desk.own(30, &Owned { incarnation: "second".into(), ..owned(1, &[1], &first(1)) });
    let expected =
        ["0 w-1 30..now (first assignment) ()", "0 w-1 10..20 (first assignment) (the job was removed)"];
    assert_eq!(desk.rows(None, None).await, expected);
}

#[tokio::test]
async fn owners_come_in_pages() {
    let mut desk = Desk::new();
    for n in 0..25_u32 {
        desk.own(i64::from(n), &owned(u64::from(n), &[n % 2, 7], &[]));
    }
    let (mut seen, mut token) = (Vec::new(), None);
    loop {
        let filter = OwnerFilter { job: job(), item: None, from: None, to: None };
        let (rows, next) = desk.reader.owners(filter, Page { size: 4, token }).await.unwrap();
        seen.extend(rows);
        token = next;
        if token.is_none() {
            break;
        }
    }
    assert_eq!((seen.len(), seen.clone()), (26, desk.owners(None, None).await));
}

#[tokio::test]
async fn what_is_in_force_does_not_grow_old_and_what_is_over_does() {
    let mut desk = Desk::with(Options { max_rows: 40, ..Options::default() });
    desk.own(0, &owned(1, &[1, 2], &first(2)));
    desk.own(1, &owned(2, &[3, 2], &[]));
    desk.pass(29 * DAY);
    desk.clean();
    assert_eq!(desk.owners(None, None).await.len(), 3);
    desk.pass(2 * DAY);
    desk.clean();
    assert_eq!(desk.rows(None, None).await.len(), 2, "both that are in force");
    // They are not pruned in favor of others either.
    let many: Vec<u32> = (0..100).collect();
    desk.own(2, &owned(3, &many, &[]));
    desk.recorder.event(at(3), None, EventKind::Worker, "one more", None);
    desk.write();
    desk.pass(Duration::from_secs(61));
    desk.clean();
    assert_eq!(desk.owners(None, Some([5, 6])).await.len(), 100);
}
