//! Only its owner can access the store.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use rosterd_registry::embedded::{EmbeddedOptions, EmbeddedRegistry};

use crate::backend::open;
use crate::words::*;

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn refused(dir: &Path) -> String {
    EmbeddedRegistry::open(dir, EmbeddedOptions::new(namespace())).expect_err("it was opened").to_string()
}

#[tokio::test]
async fn nobody_but_its_owner_reads_or_writes_a_store() {
    let above = dir();
    let dir = above.path().join("a").join("data");
    let registry = open(&dir);
    put(&registry, [create(&j(), "i1")]).await;
    let modes = || {
        let files = fs::read_dir(&dir).unwrap().map(|file| file.unwrap().path());
        files
            .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), mode(&path)))
            .collect::<Vec<_>>()
    };
    assert_eq!(mode(&dir), 0o700);
    assert!(modes().len() >= 4 && modes().iter().all(|(_, mode)| *mode == 0o600), "{:?}", modes());
    drop(registry);
    for (name, _) in modes() {
        set_mode(&dir.join(name), 0o644);
    }
    let registry = open(&dir);
    put(&registry, [write_record(0, None, 1)]).await;
    assert!(modes().iter().all(|(_, mode)| *mode == 0o600), "a version before left them open: {:?}", modes());
}

#[tokio::test]
async fn a_directory_that_others_may_read_or_write_is_refused_with_the_remedy() {
    for others in [0o755, 0o750, 0o770, 0o702] {
        let dir = dir();
        set_mode(dir.path(), others);
        let text = refused(dir.path());
        assert!(text.contains(&format!("mode {others:04o}")) && text.contains("chmod 700 it"), "{text}");
        assert!(text.contains(&dir.path().display().to_string()), "{text}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was made in it");
        drop(open(&dir.path().join("below")));
        set_mode(dir.path(), 0o700);
        drop(open(dir.path()));
    }
}

#[tokio::test]
async fn nothing_is_written_through_a_link_that_someone_put_there() {
    for name in ["registry.note.new", "registry.db.new"] {
        let (dir, elsewhere) = (dir(), dir());
        let victim = elsewhere.path().join("victim");
        fs::write(&victim, "mine").unwrap();
        symlink(&victim, dir.path().join(name)).unwrap();
        drop(open(dir.path()));
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine", "{name}");
    }
    for name in ["registry.lock", "registry.note", "registry.db"] {
        let (dir, elsewhere) = (dir(), dir());
        symlink(elsewhere.path().join("victim"), dir.path().join(name)).unwrap();
        let text = refused(dir.path());
        assert!(text.contains(name) && text.contains("symbolic link: put the file itself there"), "{text}");
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0, "{name}");
    }
}
