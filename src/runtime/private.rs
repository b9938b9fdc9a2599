//! Directories and files that are their owner's alone. What a coordinator keeps says what jobs do, with which parameters,
//! and what is written there is believed: nobody else on the machine may read or write it. Called by whoever keeps files.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// What others than the owner may do, in a file's mode.
const OTHERS: u32 = 0o077;

/// Makes a directory, and those above it, for its owner alone; one that is there must be so already. Its mode is not
/// changed: whoever shares it has a reason, or does not know.
pub fn dir(path: &Path) -> io::Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| {
        io::Error::new(error.kind(), format!("{error}: name a directory that this user may write"))
    })?;
    let Some(mode) = shared_mode(&path.metadata()?) else { return Ok(()) };
    let what = format!(
        "others on this machine may read or write it (mode {mode:04o}): chmod 700 it, or name a directory below it, which \
         is made"
    );
    Err(io::Error::new(ErrorKind::PermissionDenied, what))
}

/// The mode of what others than its owner may do something with.
pub fn shared_mode(about: &Metadata) -> Option<u32> {
    Some(about.permissions().mode() & 0o7777).filter(|mode| mode & OTHERS != 0)
}

/// Makes a file that is not there, for its owner alone. Never through a symbolic link.
pub fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// The same in the place of what is left there of an earlier one, or was put there.
pub fn create_anew(path: &Path) -> io::Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => create(path),
    }
}

/// Takes from others what they may do to a file; that it is not there is as well.
pub fn close(path: &Path) -> io::Result<()> {
    let found = match path.symlink_metadata() {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if found.is_symlink() {
        let what = "it is a symbolic link: put the file itself there";
        return Err(io::Error::new(ErrorKind::PermissionDenied, what));
    }
    let mode = found.permissions().mode();
    if !found.is_file() || mode & OTHERS == 0 {
        return Ok(());
    }
    std::fs::set_permissions(path, Permissions::from_mode(mode & 0o7700))
}

/// Makes a file for its owner alone, or takes one that is there from the others.
pub fn make_or_close(path: &Path) -> io::Result<()> {
    match create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => close(path),
        made => made.map(drop),
    }
}
