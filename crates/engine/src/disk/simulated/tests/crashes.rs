//! What must, and must not, exist after a crash.

use super::*;
use crate::disk::path::join;

/// The test's knowledge of one file that it made.
#[derive(Clone, Default)]
struct ModelledFile {
    issued: Vec<u8>,
    /// The bytes issued when the last successful sync ended, truncated by later truncations.
    synced: Vec<u8>,
}

/// The names of a folder, each with the number of its file.
type FolderNames = BTreeMap<String, usize>;

/// A history in one folder: the names after every change since the last sync of the folder.
struct FolderHistory<'a> {
    disk: SimulatedDisk,
    folder: &'a str,
    random: Random,
    files: Vec<ModelledFile>,
    open: Vec<(FileId, usize)>,
    begun: Vec<(SyncTicket, usize, Vec<u8>)>,
    states: Vec<FolderNames>,
}

impl FolderHistory<'_> {
    fn step(&mut self) {
        let now = self.states.last().unwrap().clone();
        match self.random.below(12) {
            0..=1 => self.create(now),
            2..=5 => self.on_open(|run, id, file| {
                let mut data = vec![0; run.random.below(1500) as usize];
                run.random.fill(&mut data);
                run.disk.append(id, &data).unwrap();
                run.files[file].issued.extend(data);
            }),
            6 => self.on_open(|run, id, file| {
                let cut = run.random.below(run.files[file].issued.len() as u64 + 1) as usize;
                run.disk.truncate(id, cut as u64).unwrap();
                run.files[file].issued.truncate(cut);
                run.files[file].synced.truncate(cut);
                run.begun.iter_mut().filter(|begun| begun.1 == file).for_each(|begun| begun.2.truncate(cut));
            }),
            7 => self.on_open(|run, id, file| {
                run.disk.sync(id).unwrap();
                run.files[file].synced = run.files[file].issued.clone();
            }),
            8 => self.on_open(|run, id, file| {
                let ticket = run.disk.sync_begin(id).unwrap();
                run.begun.push((ticket, file, run.files[file].issued.clone()));
            }),
            9 => self.poll(),
            10 => self.rename_or_remove(now),
            _ => {
                if self.disk.sync_dir(self.folder).is_ok() {
                    self.states = vec![now];
                }
            }
        }
    }

    fn on_open(&mut self, act: impl FnOnce(&mut Self, FileId, usize)) {
        if !self.open.is_empty() {
            let (id, file) = self.open[self.random.below(self.open.len() as u64) as usize];
            act(self, id, file);
        }
    }

    fn name(&mut self) -> String {
        ["a", "b", "c", "d"][self.random.below(4) as usize].to_owned()
    }

    fn create(&mut self, mut now: FolderNames) {
        let name = self.name();
        if let Ok(id) = self.disk.open(&join(self.folder, &name), OpenMode::Create) {
            self.open.push((id, self.files.len()));
            now.insert(name, self.files.len());
            self.files.push(ModelledFile::default());
            self.states.push(now);
        }
    }

    fn poll(&mut self) {
        if !self.begun.is_empty() {
            let chosen = self.random.below(self.begun.len() as u64) as usize;
            if self.disk.sync_done(self.begun[chosen].0).unwrap() {
                let (_, file, covered) = self.begun.swap_remove(chosen);
                if covered.len() > self.files[file].synced.len() {
                    self.files[file].synced = covered;
                }
            }
        }
    }

    fn rename_or_remove(&mut self, mut now: FolderNames) {
        let (from, to) = (self.name(), self.name());
        let Some(file) = now.get(&from).copied() else { return };
        let displaced = if self.random.chance(1, 2) {
            self.disk.remove(&join(self.folder, &from)).unwrap();
            now.remove(&from)
        } else {
            self.disk.rename(&join(self.folder, &from), &join(self.folder, &to)).unwrap();
            now.remove(&from);
            now.insert(to, file).filter(|displaced| *displaced != file)
        };
        self.open.retain(|(_, open)| Some(*open) != displaced);
        self.states.push(now);
    }

    /// The folder must be in some state since its last sync, and every file must have at least its synced bytes.
    fn crash_and_check(mut self, seed: u64) {
        self.disk.crash();
        let mut found = BTreeMap::new();
        for entry in self.disk.list(self.folder).unwrap() {
            let bytes = read(&mut self.disk, &join(self.folder, &entry.name)).unwrap();
            assert_eq!(bytes.len() as u64, entry.bytes);
            found.insert(entry.name, bytes);
        }
        let stands = |state: &FolderNames| {
            found.keys().eq(state.keys())
                && state.iter().all(|(name, file)| found[name].starts_with(&self.files[*file].synced))
        };
        assert!(self.states.iter().any(stands), "seed {seed}: {:?}", found.keys());
    }
}

fn check_history(seed: u64, folder: &str) {
    let mut run = FolderHistory {
        disk: SimulatedDisk::new(seed),
        folder,
        random: Random::new(seed),
        files: Vec::new(),
        open: Vec::new(),
        begun: Vec::new(),
        states: vec![FolderNames::new()],
    };
    for _ in 0..1 + seed % 60 {
        run.step();
    }
    run.crash_and_check(seed);
}

#[test]
fn synced_bytes_and_names_survive_and_no_other_names_appear() {
    for seed in 0..4000 {
        check_history(seed, "");
        check_history(seed, "deep/down");
    }
}

#[test]
fn a_disk_lives_through_crash_after_crash() {
    for seed in 0..200 {
        let mut disk = SimulatedDisk::new(seed);
        let mut synced: Vec<u8> = Vec::new();
        let id = append(&mut disk, "log", b"");
        disk.sync_dir("").unwrap();
        disk.close(id);
        for round in 0..20u8 {
            let found = read(&mut disk, "log").unwrap();
            assert!(found.starts_with(&synced), "seed {seed}, round {round}");
            let id = disk.open("log", OpenMode::Existing).unwrap();
            disk.truncate(id, synced.len() as u64).unwrap();
            disk.append(id, &[round; 333]).unwrap();
            disk.sync(id).unwrap();
            synced.extend([round; 333]);
            disk.append(id, &[0xee; 400]).unwrap();
            disk.crash();
        }
    }
}

#[test]
fn file_without_synced_name_may_be_lost_with_synced_bytes() {
    let mut outcomes = [0; 2];
    for seed in 0..50 {
        let mut disk = SimulatedDisk::new(seed);
        let id = append(&mut disk, "f", b"bytes");
        disk.sync(id).unwrap();
        disk.crash();
        let found = read(&mut disk, "f");
        assert!(found.is_none() || found.as_deref() == Some(b"bytes"));
        outcomes[usize::from(found.is_some())] += 1;
    }
    assert!(outcomes.iter().all(|&times| times > 5), "{outcomes:?}");
}

#[test]
fn removed_file_may_reappear_until_its_folder_is_synced() {
    let mut came_back = 0;
    for seed in 0..50 {
        let mut disk = SimulatedDisk::new(seed);
        let id = append(&mut disk, "f", b"bytes");
        disk.sync(id).unwrap();
        disk.sync_dir("").unwrap();
        disk.remove("f").unwrap();
        let mut settled = disk.duplicate();
        settled.sync_dir("").unwrap();
        settled.crash();
        assert_eq!(read(&mut settled, "f"), None);
        disk.crash();
        came_back += u32::from(read(&mut disk, "f").is_some_and(|bytes| bytes == b"bytes"));
    }
    assert!((10..40).contains(&came_back), "{came_back}");
}

#[test]
fn unfinished_sync_may_be_lost() {
    let mut outcomes = [0; 2];
    for seed in 0..100 {
        let mut disk = SimulatedDisk::new(seed);
        let id = append(&mut disk, "f", b"");
        disk.sync_dir("").unwrap();
        disk.append(id, &[7; 5000]).unwrap();
        disk.sync_begin(id).unwrap();
        disk.crash();
        outcomes[usize::from(read(&mut disk, "f").unwrap() == [7; 5000])] += 1;
    }
    assert!(outcomes.iter().all(|&times| times > 10), "{outcomes:?}");
}

#[test]
fn ids_and_tickets_end_with_a_crash_and_are_not_reused() {
    let mut disk = SimulatedDisk::new(1);
    let id = append(&mut disk, "f", b"x");
    let ticket = disk.sync_begin(id).unwrap();
    disk.power_off_clean();
    assert!(disk.bytes(id).is_err());
    assert!(disk.sync_done(ticket).is_err());
    assert_ne!(disk.open("f", OpenMode::Existing).unwrap(), id);
    assert_eq!(read(&mut disk, "f").unwrap(), b"x", "a clean shutdown keeps what was not synced");
}

#[test]
fn disk_without_power_fails_all_calls_and_stores_nothing() {
    for operations in 0..6 {
        let mut disk = SimulatedDisk::new(operations);
        let id = append(&mut disk, "f", b"kept");
        disk.sync(id).unwrap();
        disk.sync_dir("").unwrap();
        disk.cut_power_after(operations);
        let answers: Vec<bool> =
            (0..3).flat_map(|_| [disk.append(id, &[1; 600]).is_ok(), disk.sync(id).is_ok()]).collect();
        assert_eq!(answers.iter().filter(|&&answer| answer).count() as u64, operations);
        assert!(disk.list("").is_err());
        disk.crash();
        let synced = answers.iter().skip(1).step_by(2).filter(|&&answer| answer).count();
        assert!(read(&mut disk, "f").unwrap().len() >= 4 + 600 * synced);
    }
}

#[test]
fn aimed_cut_comes_at_nth_of_its_points_and_ends_with_crash() {
    use crate::disk::crash_point::CrashPoint;
    let points = [CrashPoint::CheckpointNamed, CrashPoint::SegmentSealed];
    let mut disk = SimulatedDisk::new(3);
    disk.cut_power_at(&points, 2, 1);
    for point in [CrashPoint::CheckpointNamed, CrashPoint::CheckpointPage, CrashPoint::SegmentSealed] {
        assert_eq!(disk.cut_at(), None);
        disk.reached(point);
    }
    assert_eq!((disk.cut_at(), disk.is_power_off()), (Some(CrashPoint::SegmentSealed), false));
    assert!(disk.open("f", OpenMode::Create).is_ok(), "one more call succeeds");
    assert!(disk.is_power_off() && disk.sync_dir("").is_err());
    disk.reached(CrashPoint::SegmentSealed);
    disk.crash();
    assert_eq!((disk.cut_at(), disk.is_power_off()), (None, false));
    assert_eq!(disk.times_reached(CrashPoint::SegmentSealed), 1, "nothing is reached without power");
    // A cut that is cancelled does not come, whether it has begun or not.
    for begins in [false, true] {
        disk.cut_power_at(&points, 1, 1);
        if begins {
            disk.reached(CrashPoint::CheckpointNamed);
        }
        disk.cancel_aimed_cut();
        disk.reached(CrashPoint::CheckpointNamed);
        assert!((0..3).all(|_| disk.sync_dir("").is_ok()), "the power stays on");
    }
}
