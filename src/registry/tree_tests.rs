use super::*;

const ME: SessionId = SessionId(1);
const OTHER: SessionId = SessionId(2);

fn path(text: &str) -> Path {
    Path::stored(text).unwrap()
}

fn data(text: &str) -> Arc<[u8]> {
    text.as_bytes().into()
}

fn create(at: &str) -> Op {
    Op::Create { path: path(at), data: data(""), ephemeral: false }
}

fn set(at: &str, to: &str, expect: Option<u64>) -> Op {
    Op::Set { path: path(at), data: data(to), expect: expect.map(Version) }
}

fn put(at: &str, ephemeral: bool) -> Op {
    Op::Put { path: path(at), data: data("x"), ephemeral }
}

fn delete(at: &str) -> Op {
    Op::Delete { path: path(at), expect: None }
}

fn tree(nodes: &[&str]) -> Tree {
    let mut tree = Tree::new(Revision(10));
    let ops: Vec<Op> = nodes.iter().map(|at| create(at)).collect();
    tree.apply(&ops, ME).unwrap();
    tree
}

fn refused(tree: &mut Tree, ops: &[Op]) -> Refusal {
    let before = format!("{tree:?}");
    let refusal = tree.apply(ops, ME).unwrap_err();
    assert_eq!(format!("{tree:?}"), before, "a refused transaction left something behind");
    refusal
}

#[test]
fn versions_count_sets_and_start_again() {
    let mut tree = tree(&["/a"]);
    tree.apply(&[set("/a", "1", Some(0)), set("/a", "2", Some(1))], ME).unwrap();
    let stat = tree.get(&path("/a")).unwrap().stat.clone();
    assert_eq!((stat.version, stat.created, stat.modified), (Version(2), Revision(11), Revision(12)));
    tree.apply(&[delete("/a"), create("/a")], ME).unwrap();
    let stat = &tree.get(&path("/a")).unwrap().stat;
    assert_eq!((stat.version, stat.created), (Version(0), Revision(13)));
}

#[test]
fn all_or_nothing_and_the_refused_step_is_named() {
    let mut tree = tree(&["/a", "/a/b"]);
    let put_other = put("/a/e", true);
    let ops = [set("/a", "1", None), delete("/a/b"), put_other, create("/a/c"), set("/a", "2", Some(0))];
    assert_eq!(
        refused(&mut tree, &ops),
        Refusal { index: 4, reason: Reason::Version { expected: Version(0), found: Version(1) } }
    );
    assert_eq!(refused(&mut tree, &[create("/a")]).reason, Reason::Exists);
    assert_eq!(refused(&mut tree, &[create("/x/y")]).reason, Reason::NoParent);
    assert_eq!(refused(&mut tree, &[delete("/x")]).reason, Reason::Absent);
    assert_eq!(refused(&mut tree, &[delete("/a")]).reason, Reason::NotEmpty);
    assert_eq!(refused(&mut tree, &[Op::CheckAbsent { path: path("/a") }]).reason, Reason::Exists);
    assert_eq!(tree.revision(), Revision(11));
}

#[test]
fn a_batch_is_undone_in_reverse() {
    let mut tree = tree(&["/a", "/a/b"]);
    let before = format!("{:?}{:?}", tree.root, tree.ephemerals);
    let first = tree.apply(&[set("/a", "1", None), put("/a/e", true), delete("/a/b")], ME).unwrap();
    let second = tree.apply(&[put("/a/e", true), create("/a/b"), set("/a", "2", None)], OTHER).unwrap();
    tree.undo(second.changes.into_iter());
    tree.undo(first.changes.into_iter());
    assert_eq!(format!("{:?}{:?}", tree.root, tree.ephemerals), before);
    assert_eq!(tree.revision(), Revision(13), "a revision is never used twice");
}

#[test]
fn an_ephemeral_ends_with_its_session_and_not_with_an_earlier_owners() {
    let mut tree = tree(&["/a"]);
    tree.apply(&[put("/a/mine", true), put("/a/moved", true)], ME).unwrap();
    tree.apply(&[put("/a/moved", true)], OTHER).unwrap();
    let ended = tree.end_session(ME).unwrap();
    assert_eq!(ended.changes.len(), 1);
    assert!(tree.get(&path("/a/mine")).is_none());
    assert!(tree.get(&path("/a/moved")).is_some());
    assert!(tree.end_session(ME).is_none());
    assert_eq!(refused(&mut tree, &[create("/a/moved/x")]).reason, Reason::NoParent);
}

#[test]
fn a_mirror_is_not_a_precondition() {
    let mut tree = tree(&["/a"]);
    let mirror = |at: &str| Op::Mirror { path: path(at), data: data("m"), ephemeral: true };
    tree.apply(&[mirror("/a/m"), mirror("/a/m"), mirror("/nowhere/m")], ME).unwrap();
    tree.apply(&[Op::Remove { path: path("/a/m") }, Op::Remove { path: path("/a/m") }], ME).unwrap();
    assert!(tree.get(&path("/a/m")).is_none());
    assert!(tree.get(&path("/nowhere")).is_none());
}

#[test]
fn a_sweep_goes_children_first_and_stops_at_its_limit() {
    let mut tree = tree(&["/j", "/j/a", "/j/a/b", "/j/c"]);
    let sweep = |limit| Op::Sweep { root: path("/j"), unless: [path("/j/c/alive"), path("/x")], limit };
    tree.apply(&[sweep(2)], ME).unwrap();
    assert!(tree.get(&path("/j/a")).is_none() && tree.get(&path("/j/c")).is_some());
    tree.apply(&[create("/j/c/alive"), sweep(9)], ME).unwrap();
    assert!(tree.get(&path("/j/c")).is_some());
    tree.apply(&[delete("/j/c/alive"), sweep(9), sweep(9)], ME).unwrap();
    assert!(tree.get(&path("/j")).is_none());
}

#[test]
fn siblings_whose_names_begin_alike_are_kept_apart() {
    let tree = tree(&["/a", "/a-b", "/a.b", "/a/x", "/a-b/y"]);
    let names: Vec<&str> = tree.children(&path("/a")).map(|(name, _)| name).collect();
    assert_eq!(names, ["x"]);
}
