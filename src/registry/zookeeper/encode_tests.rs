use super::*;
use rosterd_domain::id::Version;

fn path(text: &str) -> Path {
    Path::stored(text).unwrap()
}

fn data() -> Arc<[u8]> {
    Arc::from(*b"d")
}

fn words(ops: &[Op], existence: &ExistenceCache, fresh: Option<&Fresh>) -> Vec<String> {
    let word = |step: MultiOp| match step {
        MultiOp::Check { path, version } => format!("check {path} {version}"),
        MultiOp::Create { path, ephemeral, .. } => format!("create {path} {ephemeral}"),
        MultiOp::Set { path, version, .. } => format!("set {path} {version:?}"),
        MultiOp::Delete { path, version } => format!("delete {path} {version:?}"),
    };
    encode(ops, existence, fresh, &Sweeping::new()).steps.into_iter().map(word).collect()
}

fn put(text: &str, ephemeral: bool) -> Op {
    Op::Put { path: path(text), data: data(), ephemeral }
}

#[test]
fn a_put_fits_what_is_believed() {
    let mut existence = ExistenceCache::default();
    let table = [
        (None, false, vec!["create /a false"]),
        (None, true, vec!["create /a true"]),
        (Some(NodeKind::Persistent), false, vec!["set /a None"]),
        (Some(NodeKind::Persistent), true, vec!["delete /a None", "create /a true"]),
        (Some(NodeKind::Ephemeral), false, vec!["delete /a None", "create /a false"]),
        (Some(NodeKind::Ephemeral), true, vec!["delete /a None", "create /a true"]),
        (Some(NodeKind::Own), true, vec!["set /a None"]),
    ];
    for (belief, ephemeral, expected) in table {
        existence.set(&path("/a"), belief);
        assert_eq!(words(&[put("/a", ephemeral)], &existence, None), expected, "{belief:?} {ephemeral}");
    }
}

#[test]
fn a_transaction_knows_what_it_did_itself() {
    let existence = ExistenceCache::default();
    let remove = Op::Remove { path: path("/a") };
    let ops = [put("/a", false), put("/a", false), remove.clone(), remove, put("/a", true)];
    let expected = ["create /a false", "set /a None", "delete /a None", "create /a true"];
    assert_eq!(words(&ops, &existence, None), expected);
}

#[test]
fn only_what_was_just_read_makes_a_remove_superfluous() {
    let existence = ExistenceCache::default();
    let remove = [Op::Remove { path: path("/a") }];
    assert_eq!(words(&remove, &existence, None), ["delete /a None"]);
    let fresh = Fresh::from([(path("/a"), None)]);
    assert!(words(&remove, &existence, Some(&fresh)).is_empty());
}

#[test]
fn a_mirror_without_a_parent_is_dropped() {
    let mirror = [Op::Mirror { path: path("/a/b"), data: data(), ephemeral: true }];
    assert_eq!(words(&mirror, &ExistenceCache::default(), None), ["create /a/b true"]);
    let fresh = Fresh::from([(path("/a"), None), (path("/a/b"), None)]);
    assert!(words(&mirror, &ExistenceCache::default(), Some(&fresh)).is_empty());
}

#[test]
fn absence_is_checked_by_making_the_node() {
    let absent = Op::CheckAbsent { path: path("/a") };
    let create = Op::Create { path: path("/a"), data: data(), ephemeral: false };
    let existence = ExistenceCache::default();
    assert_eq!(words(std::slice::from_ref(&absent), &existence, None), ["create /a false", "delete /a None"]);
    assert_eq!(words(&[absent, create], &existence, None), ["create /a false"]);
}

#[test]
fn guards_keep_their_versions() {
    let ops = [
        Op::Check { path: path("/a"), version: Version(3) },
        Op::CheckExists { path: path("/b") },
        Op::Set { path: path("/c"), data: data(), expect: Some(Version(0)) },
        Op::Delete { path: path("/d"), expect: Some(Version(1 << 40)) },
    ];
    let expected = ["check /a 3", "check /b -1", "set /c Some(0)", "delete /d Some(2147483647)"];
    assert_eq!(words(&ops, &ExistenceCache::default(), None), expected);
}

#[test]
fn a_sweep_holds_only_while_no_new_job_is_there() {
    let (config, own) = (path("/j/config"), path("/j/own"));
    let ops = [Op::Sweep { root: path("/j"), unless: [own.clone(), config], limit: 9 }];
    let steps = |found| {
        let sweeping = Sweeping::from([(0, found)]);
        encode(&ops, &ExistenceCache::default(), None, &sweeping).steps.len()
    };
    assert_eq!(steps(Ok(vec![path("/j/x"), path("/j")])), 4);
    assert_eq!(steps(Ok(vec![])), 0);
    assert_eq!(steps(Err(own)), 1);
}
