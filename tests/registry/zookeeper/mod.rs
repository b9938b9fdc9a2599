//! What is particular to ZooKeeper.
