//! A clock that pauses while the machine stalls. Tests of prompt reactions measure with it: so a busy processor or a
//! slow disk does not fail a test, but waiting for another process does.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

/// How often it beats. Each beat is synced to the disk, like the writes of the tested programs.
const BEAT: Duration = Duration::from_millis(10);
/// The time between two beats counts for no more than this.
const MOST: Duration = Duration::from_millis(20);

/// Beats until it is dropped.
pub(crate) struct Pulse {
    beats: Arc<Mutex<Vec<SystemTime>>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Pulse {
    /// Starts beating, on the disk of this directory.
    pub(crate) fn beside(dir: &Path) -> Self {
        let file = File::create(dir.join("pulse")).unwrap();
        let beats = Arc::new(Mutex::new(vec![SystemTime::now()]));
        let over = Arc::new(AtomicBool::new(false));
        let (own, ends) = (beats.clone(), over.clone());
        let thread = std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                std::thread::sleep(BEAT);
                file.write_all_at(b"x", 0).unwrap();
                file.sync_data().unwrap();
                own.lock().unwrap().push(SystemTime::now());
            }
        });
        Self { beats, over, thread: Some(thread) }
    }

    /// How long the machine ran between two times; the first must not be before the start of the pulse.
    #[track_caller]
    pub(crate) fn between(&self, from: SystemTime, to: SystemTime) -> Duration {
        assert!(self.thread.as_ref().is_some_and(|thread| !thread.is_finished()), "the pulse has stopped");
        let beats = self.beats.lock().unwrap();
        assert!(beats[0] <= from, "nothing beat then");
        counted(&beats, from, to)
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn counted(beats: &[SystemTime], from: SystemTime, to: SystemTime) -> Duration {
    let ends = beats.iter().skip(1).copied().chain([to]);
    let gaps = beats
        .iter()
        .zip(ends)
        .map(|(begun, ended)| ended.min(to).duration_since(from.max(*begun)).unwrap_or_default().min(MOST));
    gaps.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frozen_process_takes_no_time() {
        let at = |millis: u64| SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
        // It beats regularly, pauses for a second, and does not beat after the last one.
        let beats: Vec<SystemTime> = (0..=10).chain(110..=120).map(|beat| at(beat * 10)).collect();
        let between = |from, to| counted(&beats, at(from), at(to)).as_millis();
        assert_eq!((between(0, 100), between(35, 62), between(62, 35)), (100, 27, 0));
        assert_eq!((between(50, 1150), between(200, 900)), (50 + 20 + 50, 20));
        assert_eq!((between(1150, 1205), between(1150, 9000)), (55, 70));
    }

    #[test]
    fn it_beats_until_it_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let pulse = Pulse::beside(dir.path());
        let begun = SystemTime::now();
        while pulse.between(begun, SystemTime::now()) < 5 * MOST {
            std::thread::sleep(BEAT);
        }
        assert!(pulse.beats.lock().unwrap().len() >= 5);
    }
}
