//! The folders below which all nodes are: created when a session is opened, and again if they were removed.
//!
//! Elastic-Job creates some of them as containers, which ZooKeeper removes along with their last child.

use zookeeper_client::{Acls, Client, CreateOptions, Error};

use super::multi::options;
use crate::paths::{Path, Paths};

/// Creates what is missing; `Err`: the path, and why.
pub(super) async fn ensure_root_paths(
    client: &Client,
    paths: &Paths,
    acls: Acls<'static>,
) -> Result<(), (Path, Error)> {
    for root in paths.roots() {
        make(client, root.as_str(), &options(false, acls)).await.map_err(|error| (root, error))?;
    }
    Ok(())
}

/// Creates a folder and its parents. It asks for nothing above a folder that exists: that may belong to somebody else.
pub(super) async fn make(client: &Client, path: &str, options: &CreateOptions<'_>) -> Result<(), Error> {
    let ends = path.match_indices('/').skip(1).map(|(at, _)| at).chain([path.len()]);
    let all: Vec<&str> = ends.map(|end| &path[..end]).collect();
    let mut missing = Vec::new();
    for folder in all.into_iter().rev() {
        if client.check_stat(folder).await?.is_some() {
            break;
        }
        missing.push(folder);
    }
    for folder in missing.into_iter().rev() {
        match client.create(folder, &[], options).await {
            Ok(_) | Err(Error::NodeExists) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
