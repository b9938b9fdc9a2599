//! Random transactions have the same effect in memory and on ZooKeeper, alone and as many together as may share a
//! packet: the same answers, and the same nodes with the same versions.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rosterd_registry::memory::{MemoryStore, SessionOptions};

use super::histories::blame;
use super::{connect, on_single};
use crate::same::{carry_out, everything, transactions};
use crate::words::*;

const CASES: usize = 40;

#[tokio::test]
async fn memory_and_zookeeper_do_the_same() {
    let seed = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), seed);
    for case in 0..CASES {
        let all = transactions().new_tree(&mut runner).unwrap().current();
        let memory = MemoryStore::new(&namespace()).open("m", SessionOptions::default());
        let zookeeper = connect(&on_single().await).await;
        let expected = carry_out(&memory, &all).await;
        let found = carry_out(&zookeeper, &all).await;
        for (n, (expected, found)) in expected.iter().zip(&found).enumerate() {
            let words = |answer: &Result<(), String>| answer.clone().map_err(|text| blame(&all[n].0, &text));
            assert_eq!(words(expected), words(found), "case {case}, transaction {n}: {:#?}", all[n].0);
        }
        assert_eq!(everything(&memory, true).await, everything(&zookeeper, true).await, "case {case}");
    }
}
