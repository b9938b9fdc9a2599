//! A disk as a crash may leave it. Synced data is there. Of unsynced data, any sectors may be there and any may be
//! missing, in any order; names appear and vanish in order, but may be late.
//!
//! A sync of a file does not sync its name: that takes a sync of its directory. After a failed sync it is unknown which
//! sectors are there, and a later successful sync does not cover them.

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::record::Call;
use super::rng::Rng;

/// The unit that a disk writes atomically.
const SECTOR: usize = 512;

/// Files by name, and directories.
pub type Image = BTreeMap<PathBuf, Option<Vec<u8>>>;

/// What happens to unsynced data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survives {
    /// All of it, as after a kill.
    All,
    /// Nothing.
    Nothing,
    /// Each sector with this share of a thousand, and some of the names.
    Some(u64),
    /// The same, and where a file has grown without its data, it contains old data of the disk.
    Stale(u64),
}

#[derive(Debug, Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Resize(usize),
}

#[derive(Debug, Clone, Default)]
struct File {
    synced: Vec<u8>,
    waiting: Vec<Change>,
}

#[derive(Debug, Clone)]
enum Naming {
    File(PathBuf, usize),
    Dir(PathBuf),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

impl Naming {
    /// The directory that holds the name; a rename stays within one directory.
    fn dir(&self) -> &Path {
        let (Self::File(path, _) | Self::Dir(path) | Self::Rename(_, path) | Self::Remove(path)) = self;
        path.parent().unwrap_or(Path::new(""))
    }

    fn carry_out(&self, names: &mut BTreeMap<PathBuf, Option<usize>>) {
        match self {
            Self::File(path, file) => drop(names.insert(path.clone(), Some(*file))),
            Self::Dir(path) => drop(names.insert(path.clone(), None)),
            Self::Rename(from, to) => {
                if let Some(file) = names.remove(from) {
                    names.insert(to.clone(), file);
                }
            }
            Self::Remove(path) => drop(names.remove(path)),
        }
    }
}

/// The disk under a process.
#[derive(Debug, Clone, Default)]
pub struct Disk {
    files: Vec<File>,
    /// As the process sees them.
    names: BTreeMap<PathBuf, Option<usize>>,
    synced_names: BTreeMap<PathBuf, Option<usize>>,
    waiting_names: Vec<Naming>,
}

impl Disk {
    /// A disk with these durable contents.
    pub fn holding(image: &Image) -> Self {
        let mut disk = Self::default();
        for (path, bytes) in image {
            let file = bytes.as_ref().map(|bytes| {
                disk.files.push(File { synced: bytes.clone(), waiting: Vec::new() });
                disk.files.len() - 1
            });
            disk.names.insert(path.clone(), file);
        }
        disk.synced_names = disk.names.clone();
        disk
    }

    /// Applies a call. `rng` decides what a failed sync has written.
    pub fn take(&mut self, call: &Call, rng: &mut Rng) {
        match call {
            Call::Create(path) | Call::Empty(path) if !self.names.contains_key(path) => {
                self.files.push(File::default());
                self.name(Naming::File(path.clone(), self.files.len() - 1));
            }
            Call::Create(_) | Call::Acknowledge(_) => {}
            Call::Empty(path) => self.file(path).waiting.push(Change::Resize(0)),
            Call::MakeDir(path) => self.name(Naming::Dir(path.clone())),
            Call::Write { file, at, data } => {
                self.file(file).waiting.push(Change::Write(*at, data.clone()));
            }
            Call::Resize { file, length } => self.file(file).waiting.push(Change::Resize(*length)),
            Call::Rename(from, to) => self.name(Naming::Rename(from.clone(), to.clone())),
            Call::Remove(path) => self.name(Naming::Remove(path.clone())),
            Call::Sync(path, succeeded) => self.sync(path, *succeeded, rng),
        }
    }

    fn name(&mut self, naming: Naming) {
        naming.carry_out(&mut self.names);
        self.waiting_names.push(naming);
    }

    fn file(&mut self, path: &Path) -> &mut File {
        match self.names.get(path) {
            Some(Some(file)) => &mut self.files[*file],
            other => panic!("{} is written and is {other:?}", path.display()),
        }
    }

    fn sync(&mut self, path: &Path, succeeded: bool, rng: &mut Rng) {
        let is_dir = path == Path::new("") || self.names.get(path) == Some(&None);
        if is_dir && succeeded {
            let (synced, waiting) =
                std::mem::take(&mut self.waiting_names).into_iter().partition(|naming| naming.dir() == path);
            let synced: Vec<Naming> = synced;
            synced.iter().for_each(|naming| naming.carry_out(&mut self.synced_names));
            self.waiting_names = waiting;
        } else if !is_dir {
            let survives = if succeeded { Survives::All } else { Survives::Some(rng.below(1_001)) };
            let file = self.file(path);
            file.synced = file.after(survives, rng);
            file.waiting.clear();
        }
    }

    /// How a crash may leave it now.
    pub fn crashed(&self, survives: Survives, rng: &mut Rng) -> Image {
        let mut names = self.synced_names.clone();
        let named = match survives {
            Survives::All => self.waiting_names.len(),
            Survives::Nothing => 0,
            Survives::Some(_) | Survives::Stale(_) => rng.index(self.waiting_names.len() + 1),
        };
        self.waiting_names[..named].iter().for_each(|naming| naming.carry_out(&mut names));
        let is_there = |path: &Path| {
            let dir = path.parent().unwrap_or(Path::new(""));
            dir == Path::new("") || names.get(dir) == Some(&None)
        };
        let there = names.iter().filter(|(path, _)| is_there(path));
        there
            .map(|(path, file)| (path.clone(), file.map(|file| self.files[file].after(survives, rng))))
            .collect()
    }

    /// Whether a crash now may leave more than one image.
    pub fn is_dirty(&self) -> bool {
        !self.waiting_names.is_empty() || self.files.iter().any(|file| !file.waiting.is_empty())
    }
}

impl File {
    fn after(&self, survives: Survives, rng: &mut Rng) -> Vec<u8> {
        let mut bytes = self.synced.clone();
        let (share, stale) = match survives {
            Survives::Nothing => return bytes,
            Survives::All => (1_000, false),
            Survives::Some(share) => (share, false),
            Survives::Stale(share) => (share, true),
        };
        for change in &self.waiting {
            match change {
                Change::Resize(length) => {
                    if rng.permille(share) {
                        bytes.resize(*length, 0);
                    }
                }
                Change::Write(at, data) => {
                    if stale {
                        let end = at + data.len();
                        while bytes.len() < end {
                            bytes.push(rng.next() as u8);
                        }
                    }
                    for (from, to) in sectors(*at, data.len()) {
                        if !rng.permille(share) {
                            continue;
                        }
                        if bytes.len() < to {
                            bytes.resize(to, 0);
                        }
                        bytes[from..to].copy_from_slice(&data[from - at..to - at]);
                    }
                }
            }
        }
        bytes
    }
}

/// The parts of a write, one per sector.
fn sectors(at: usize, length: usize) -> impl Iterator<Item = (usize, usize)> {
    let end = at + length;
    let first = at / SECTOR;
    (first..end.div_ceil(SECTOR)).map(move |sector| {
        let (from, to) = (sector * SECTOR, (sector + 1) * SECTOR);
        (from.max(at), to.min(end))
    })
}

/// Puts an image into a directory.
pub fn put(image: &Image, dir: &Path) {
    for (path, bytes) in image {
        let path = dir.join(path);
        match bytes {
            None => std::fs::DirBuilder::new().mode(0o700).create(&path).unwrap(),
            Some(bytes) => std::fs::write(&path, bytes).unwrap(),
        }
    }
}

#[test]
fn a_crash_takes_what_was_not_synced_and_nothing_else() {
    let (name, mut rng) = (PathBuf::from("d/f"), Rng::new(1));
    let write = |at, byte| Call::Write { file: name.clone(), at, data: vec![byte; 1_024] };
    let mut disk = Disk::default();
    let calls = [
        Call::MakeDir("d".into()),
        Call::Sync("".into(), true),
        Call::Create(name.clone()),
        write(0, 1),
        Call::Sync(name.clone(), true),
    ];
    calls.iter().for_each(|call| disk.take(call, &mut rng));
    assert_eq!(disk.crashed(Survives::Nothing, &mut rng), [("d".into(), None)].into());
    disk.take(&Call::Sync("d".into(), true), &mut rng);
    assert!(!disk.is_dirty());
    disk.take(&write(512, 2), &mut rng);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..100 {
        let image = disk.crashed(Survives::Some(500), &mut rng);
        let bytes = image[&name].clone().unwrap();
        assert!(bytes[..512].iter().all(|byte| *byte == 1), "what was synced is lost");
        seen.insert((bytes.len(), bytes[512], bytes.get(1_024).copied()));
    }
    // Neither sector, the first, the second, both.
    let expected = [(1_024, 1, None), (1_024, 2, None), (1_536, 1, Some(2)), (1_536, 2, Some(2))];
    assert_eq!(seen, expected.into());
    let all = disk.crashed(Survives::All, &mut rng)[&name].clone().unwrap();
    assert_eq!((all.len(), all[1_535]), (1_536, 2));
}
