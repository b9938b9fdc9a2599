//! `rosterd doctor` on a real ensemble: its permissions and limits, and what has to be changed there.

use crate::fleet::shared;
use crate::moving::rosterd;
use crate::zookeeper::Ensemble;

fn told(servers: &str, more: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let asked =
        ["doctor", "--server", "127.0.0.1:1", "--data-dir", path, "--registry", "zookeeper", "--zk", servers];
    String::from_utf8(rosterd(&[&asked, more].concat()).stdout).unwrap()
}

#[test]
fn an_ensemble_that_grants_or_takes_less_than_is_needed_is_named_with_the_remedy() {
    let well = told(&shared().list(), &[]);
    for part in ["as requested", "requests of 1 MiB are accepted"] {
        assert!(well.contains(part), "{part}:\n{well}");
    }
    let small =
        Ensemble::start(1, &["maxSessionTimeout=3000".to_owned(), "-Djute.maxbuffer=200000".to_owned()]);
    let sick = told(&small.list(), &[]);
    for part in ["the session timeout is 3.0 s instead of", "raise maxSessionTimeout", "raise jute.maxbuffer"]
    {
        assert!(sick.contains(part), "{part}:\n{sick}");
    }
}
