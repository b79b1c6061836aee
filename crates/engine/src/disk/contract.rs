//! The rules for every [`Disk`] while nothing crashes, as checks that any implementation's tests can call.
//!
//! [`check_contract`] checks the rules one by one; [`check_against_model`] runs random operations on the disk and on a map
//! of byte vectors. Both start on an empty disk and panic where the disk is wrong. Crashes are not checked here: the
//! implementations differ in what survives a crash, and each has its own tests.

use std::collections::BTreeMap;

use super::path::{join, split};
use super::{Disk, DiskError, DiskResult, FileId, OpenMode, SyncTicket};
use zerohop_base::random::Random;

/// Polls of a started sync that the checks allow. A real sync takes milliseconds, a poll far under one.
const POLLS_MAX: u64 = 100_000_000;

/// Checks each rule of [`Disk`] that needs no crash. The disk must be empty, and is left empty.
///
/// # Panics
/// Where the disk breaks a rule.
pub fn check_contract(disk: &mut impl Disk) {
    assert_eq!(names(disk, ""), [] as [&str; 0], "the checks begin on an empty disk");
    check_open(disk);
    check_append_and_read(disk);
    check_truncate(disk);
    check_sync(disk);
    check_reserve(disk);
    check_rename(disk);
    check_recycle(disk);
    check_remove(disk);
    check_list(disk);
    check_malformed_paths(disk);
    assert_eq!(names(disk, ""), [] as [&str; 0], "the checks leave an empty disk");
}

/// Runs `steps` random operations on the disk and on a model, and compares every answer. The disk must be empty, and is left
/// with the resulting files.
///
/// # Panics
/// Where the disk and the model differ.
pub fn check_against_model(disk: &mut impl Disk, seed: u64, steps: u32) {
    let mut run = ModelRun {
        disk,
        random: Random::new(seed),
        files: BTreeMap::new(),
        open: Vec::new(),
        begun: Vec::new(),
    };
    for _ in 0..steps {
        run.step();
    }
    run.compare_everything();
}

fn check_open(disk: &mut impl Disk) {
    assert_eq!(disk.open("a/b/f", OpenMode::Existing), Err(not_found("a/b/f")));
    let file = good(disk.open("a/b/f", OpenMode::Create));
    assert_eq!(disk.bytes(file), Ok(0));
    assert_eq!(disk.open("a/b/f", OpenMode::Create), Err(exists("a/b/f")));
    assert_eq!(disk.open("a/b", OpenMode::Create), Err(exists("a/b")), "a folder stands there");
    assert_eq!(disk.open("a/b", OpenMode::Existing), Err(not_found("a/b")), "a folder is no file");
    assert_eq!(disk.open("a/b/f/g", OpenMode::Create), Err(exists("a/b/f")), "a file is no folder");
    assert_eq!(disk.open("a/b/f/g", OpenMode::Existing), Err(not_found("a/b/f/g")));
    let second = good(disk.open("a/b/f", OpenMode::Existing));
    assert_ne!(file, second);
    good(disk.append(file, b"seen through both ids"));
    assert_eq!(contents(disk, second), b"seen through both ids");
    disk.close(file);
    expect_failed(disk.append(file, b"closed"));
    good(disk.append(second, b", one of them closed"));
    disk.close(second);
    disk.close(second);
    let third = good(disk.open("a/b/f", OpenMode::Existing));
    assert!(third != file && third != second, "ids are not reused");
    assert_eq!(contents(disk, third), b"seen through both ids, one of them closed");
    disk.close(third);
    remove_all(disk, &["a/b/f", "a/b", "a"]);
}

fn check_append_and_read(disk: &mut impl Disk) {
    let file = good(disk.open("f", OpenMode::Create));
    let mut expected = Vec::new();
    for round in 0..200usize {
        let piece: Vec<u8> = (0..round * 13 % 1500).map(|at| (at * 7 + round) as u8).collect();
        good(disk.append(file, &piece));
        expected.extend_from_slice(&piece);
        assert_eq!(disk.bytes(file), Ok(expected.len() as u64));
    }
    assert_eq!(contents(disk, file), expected);
    let end = expected.len() as u64;
    let mut some = [0u8; 100];
    good(disk.read_at(file, 511, &mut some));
    assert_eq!(some, expected[511..611]);
    good(disk.read_at(file, end, &mut []));
    assert_eq!(disk.read_at(file, end - 99, &mut some), Err(beyond("f", end - 99, 100)));
    assert_eq!(disk.read_at(file, end + 1, &mut []), Err(beyond("f", end + 1, 0)));
    assert_eq!(disk.read_at(file, u64::MAX, &mut some), Err(beyond("f", u64::MAX, 100)));
    disk.close(file);
    expect_failed(disk.read_at(file, 0, &mut some));
    expect_failed(disk.bytes(file));
    remove_all(disk, &["f"]);
}

fn check_truncate(disk: &mut impl Disk) {
    let file = good(disk.open("f", OpenMode::Create));
    good(disk.append(file, &[1; 1000]));
    good(disk.sync(file));
    good(disk.append(file, &[2; 1000]));
    good(disk.truncate(file, 1500));
    good(disk.append(file, &[3; 10]));
    let expected = [vec![1; 1000], vec![2; 500], vec![3; 10]].concat();
    assert_eq!(contents(disk, file), expected);
    good(disk.truncate(file, 700));
    assert_eq!(disk.truncate(file, 701), Err(beyond("f", 701, 0)));
    good(disk.append(file, &[4; 5]));
    good(disk.sync(file));
    assert_eq!(contents(disk, file), [vec![1; 700], vec![4; 5]].concat());
    good(disk.truncate(file, 0));
    assert_eq!(disk.bytes(file), Ok(0));
    disk.close(file);
    remove_all(disk, &["f"]);
}

fn check_sync(disk: &mut impl Disk) {
    let first = good(disk.open("p/one", OpenMode::Create));
    let second = good(disk.open("p/two", OpenMode::Create));
    let mut tickets = Vec::new();
    for round in 0..20u8 {
        let file = if round % 3 == 0 { first } else { second };
        good(disk.append(file, &[round; 700]));
        tickets.push(good(disk.sync_begin(file)));
        good(disk.append(file, &[round; 3]));
    }
    good(disk.sync(first));
    good(disk.sync_dir("p"));
    good(disk.sync_dir("p"));
    good(disk.sync_dir(""));
    // A started sync outlives the id it was started with.
    disk.close(second);
    for (at, ticket) in tickets.into_iter().rev().enumerate() {
        match at % 2 {
            0 => wait_for(disk, ticket),
            _ => good(disk.sync_wait(ticket)),
        }
        expect_failed(disk.sync_done(ticket));
        expect_failed(disk.sync_wait(ticket));
    }
    expect_failed(disk.sync(second));
    expect_failed(disk.sync_begin(second));
    assert_eq!(disk.sync_dir("q"), Err(not_found("q")));
    assert_eq!(disk.sync_dir("p/one"), Err(not_found("p/one")), "a file is no folder");
    assert_eq!(disk.bytes(first), Ok(7 * 703));
    // The same when the name is removed during the sync.
    good(disk.append(first, b"going"));
    let ticket = good(disk.sync_begin(first));
    remove_all(disk, &["p/one", "p/two", "p"]);
    wait_for(disk, ticket);
}

/// Preallocated space is invisible while the file is open.
fn check_reserve(disk: &mut impl Disk) {
    let file = disk.open("d/reserved", OpenMode::Create).expect("a new file");
    disk.reserve(file, 1 << 20);
    let mut expected = Vec::new();
    for number in 0..200u32 {
        // The last pieces exceed the preallocated space.
        let piece = vec![number as u8 + 1; 7_001];
        disk.append(file, &piece).expect("there is room");
        expected.extend_from_slice(&piece);
        assert_eq!(disk.bytes(file), Ok(expected.len() as u64));
        if number % 32 == 0 {
            disk.sync(file).expect("a sound disk");
        }
    }
    let mut read = vec![0; expected.len()];
    disk.read_at(file, 0, &mut read).expect("it is all there");
    assert_eq!(read, expected);
    assert!(disk.read_at(file, expected.len() as u64, &mut [0]).is_err(), "room is no contents");
    disk.truncate(file, 10).expect("a sound disk");
    disk.append(file, b"end").expect("there is room");
    let mut read = [0; 13];
    disk.read_at(file, 0, &mut read).expect("it is all there");
    assert_eq!(&read, b"\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01end");
    disk.close(file);
    disk.remove("d/reserved").expect("it is there");
    disk.remove("d").expect("it is empty");
}

fn check_rename(disk: &mut impl Disk) {
    let moved = good(disk.open("a/from", OpenMode::Create));
    good(disk.append(moved, b"moved"));
    let replaced = good(disk.open("b/to", OpenMode::Create));
    good(disk.append(replaced, b"replaced, and longer"));
    good(disk.sync(replaced));
    assert_eq!(disk.rename("a/none", "b/to"), Err(not_found("a/none")));
    assert_eq!(disk.rename("a", "c"), Err(not_found("a")), "folders are not renamed");
    assert_eq!(disk.rename("a/from", "b"), Err(exists("b")));
    assert_eq!(disk.rename("a/from", "c/to"), Err(not_found("c/to")), "folders are not made");
    good(disk.rename("a/from", "a/from"));
    good(disk.rename("a/from", "b/to"));
    assert_eq!(names(disk, "a"), [] as [&str; 0]);
    assert_eq!(names(disk, "b"), ["to"]);
    good(disk.append(moved, b" on"));
    assert_eq!(contents(disk, moved), b"moved on", "open ids follow the file");
    expect_failed(disk.bytes(replaced));
    expect_failed(disk.append(replaced, b"x"));
    let by_name = good(disk.open("b/to", OpenMode::Existing));
    assert_eq!(contents(disk, by_name), b"moved on");
    // The old name is free again.
    let again = good(disk.open("a/from", OpenMode::Create));
    assert_eq!(disk.bytes(again), Ok(0));
    good(disk.sync(moved));
    good(disk.sync_dir("b"));
    good(disk.rename("b/to", "b/third"));
    good(disk.sync_dir("b"));
    assert_eq!(contents(disk, by_name), b"moved on");
    remove_all(disk, &["a/from", "a", "b/third", "b"]);
}

/// A recycled file is a new one while nothing crashes.
fn check_recycle(disk: &mut impl Disk) {
    let recycle = |disk: &mut _, from: &str, path: &str| Disk::open(disk, path, OpenMode::Recycled { from });
    assert_eq!(recycle(disk, "a/none", "b/new"), Err(not_found("a/none")));
    let old = good(disk.open("a/old", OpenMode::Create));
    good(disk.append(old, &[7; 5_000]));
    good(disk.sync(old));
    good(disk.sync_dir("a"));
    assert_eq!(recycle(disk, "a", "b/new"), Err(not_found("a")), "folders are not recycled");
    assert_eq!(recycle(disk, "a/old", "a/old"), Err(exists("a/old")));
    assert_eq!(recycle(disk, "a/old", "a"), Err(exists("a")));
    let new = good(recycle(disk, "a/old", "b/c/new"));
    expect_failed(disk.bytes(old));
    assert_eq!((names(disk, "a"), names(disk, "b/c")), (vec![], vec!["new".to_owned()]));
    assert_eq!(disk.bytes(new), Ok(0));
    expect_beyond(disk.read_at(new, 0, &mut [0]));
    good(disk.append(new, &[8; 1_000]));
    let listed: Vec<u64> = good(disk.list("b/c")).into_iter().map(|entry| entry.bytes).collect();
    assert_eq!(listed, [1_000], "old bytes are no contents");
    let ticket = good(disk.sync_begin(new));
    good(disk.append(new, &[9; 6_000]));
    wait_for(disk, ticket);
    good(disk.sync(new));
    good(disk.sync_dir("b/c"));
    assert_eq!(contents(disk, new), [vec![8; 1_000], vec![9; 6_000]].concat());
    // Again, and cut: what is opened then has no old bytes.
    let third = good(recycle(disk, "b/c/new", "a/third"));
    good(disk.append(third, b"short"));
    good(disk.truncate(third, 5));
    good(disk.sync(third));
    disk.close(third);
    let third = good(disk.open("a/third", OpenMode::Existing));
    assert_eq!(contents(disk, third), b"short");
    remove_all(disk, &["a/third", "a", "b/c", "b"]);
}

fn check_remove(disk: &mut impl Disk) {
    assert_eq!(disk.remove("a"), Err(not_found("a")));
    let file = good(disk.open("a/f", OpenMode::Create));
    good(disk.append(file, b"old"));
    good(disk.sync(file));
    good(disk.sync_dir("a"));
    expect_failed(disk.remove("a"));
    good(disk.remove("a/f"));
    expect_failed(disk.bytes(file));
    expect_failed(disk.read_at(file, 0, &mut [0]));
    assert_eq!(disk.remove("a/f"), Err(not_found("a/f")));
    let file = good(disk.open("a/f", OpenMode::Create));
    assert_eq!(disk.bytes(file), Ok(0), "a new file of an old name is empty");
    good(disk.append(file, b"new"));
    good(disk.sync(file));
    good(disk.sync_dir("a"));
    assert_eq!(contents(disk, file), b"new");
    remove_all(disk, &["a/f", "a"]);
    assert_eq!(disk.remove("a"), Err(not_found("a")));
    good(disk.sync_dir(""));
}

fn check_list(disk: &mut impl Disk) {
    for path in ["d/b", "d/a", "d/sub/x", "d/c-1.log", "d.e"] {
        let file = good(disk.open(path, OpenMode::Create));
        good(disk.append(file, path.as_bytes()));
    }
    let listed: Vec<_> = good(disk.list("d")).into_iter().map(|e| (e.name, e.bytes, e.is_dir)).collect();
    let expected = [("a", 3, false), ("b", 3, false), ("c-1.log", 9, false), ("sub", 0, true)];
    assert_eq!(listed, expected.map(|(name, bytes, is_dir)| (name.to_owned(), bytes, is_dir)));
    assert_eq!(names(disk, ""), ["d", "d.e"]);
    assert_eq!(names(disk, "none/at-all"), [] as [&str; 0]);
    assert_eq!(names(disk, "d.e"), [] as [&str; 0], "a file holds no names");
    assert!(good(disk.free_bytes()) > 0);
    remove_all(disk, &["d/b", "d/a", "d/sub/x", "d/sub", "d/c-1.log", "d", "d.e"]);
}

fn check_malformed_paths(disk: &mut impl Disk) {
    for path in ["", "/", "/etc", "a/../../b", "..", "A", "a_b", "a//b", "a/"] {
        expect_failed(disk.open(path, OpenMode::Create));
        expect_failed(disk.open(path, OpenMode::Existing));
        expect_failed(disk.remove(path));
        expect_failed(disk.rename(path, "good"));
        if !path.is_empty() {
            expect_failed(disk.list(path));
            expect_failed(disk.sync_dir(path));
        }
    }
}

struct ModelRun<'a, D> {
    disk: &'a mut D,
    random: Random,
    files: BTreeMap<String, Vec<u8>>,
    open: Vec<(FileId, String)>,
    begun: Vec<SyncTicket>,
}

impl<D: Disk> ModelRun<'_, D> {
    fn step(&mut self) {
        match self.random.below(20) {
            0..=2 => self.open(),
            3..=9 => self.on_open_file(Self::append),
            10 => self.on_open_file(Self::truncate),
            11..=12 => self.on_open_file(Self::sync),
            13 => self.on_open_file(|run, id, _| run.begun.push(good(run.disk.sync_begin(id)))),
            14 => self.on_open_file(|run, id, _| {
                run.disk.close(id);
                run.open.retain(|(open, _)| *open != id);
            }),
            15 if self.random.chance(1, 3) => self.recycle(),
            15 => self.rename(),
            16 => self.remove(),
            17 => self.poll(),
            18 => self.sync_dir(),
            _ => self.on_open_file(Self::read),
        }
    }

    fn path(&mut self) -> String {
        let folder = ["", "p", "p/q", "r"][self.random.below(4) as usize];
        join(folder, ["one", "two", "three"][self.random.below(3) as usize])
    }

    fn open(&mut self) {
        let path = self.path();
        let known = self.files.contains_key(&path);
        let mode = if self.random.chance(1, 2) { OpenMode::Create } else { OpenMode::Existing };
        let expected = match (mode, known) {
            (OpenMode::Create, true) => Err(exists(&path)),
            (OpenMode::Existing, false) => Err(not_found(&path)),
            _ => Ok(()),
        };
        let opened = self.disk.open(&path, mode);
        assert_eq!(opened.clone().map(|_| ()), expected);
        if let Ok(id) = opened {
            self.files.entry(path.clone()).or_default();
            self.open.push((id, path));
        }
    }

    fn on_open_file(&mut self, act: impl FnOnce(&mut Self, FileId, String)) {
        if !self.open.is_empty() {
            let chosen = self.random.below(self.open.len() as u64) as usize;
            let (id, path) = self.open[chosen].clone();
            act(self, id, path);
        }
    }

    fn append(&mut self, id: FileId, path: String) {
        let mut data = vec![0; self.random.below(2000) as usize];
        self.random.fill(&mut data);
        if self.random.chance(1, 2) {
            good(self.disk.append(id, &data));
        } else {
            // Some of the pieces may be empty.
            let (first, rest) = data.split_at(self.random.below(data.len() as u64 + 1) as usize);
            let (second, third) = rest.split_at(self.random.below(rest.len() as u64 + 1) as usize);
            good(self.disk.append_pieces(id, &[first, second, third]));
        }
        let bytes = self.files.entry(path).or_default();
        bytes.extend_from_slice(&data);
        assert_eq!(self.disk.bytes(id), Ok(bytes.len() as u64));
    }

    fn truncate(&mut self, id: FileId, path: String) {
        let bytes = self.files.entry(path).or_default();
        let cut = self.random.below(bytes.len() as u64 + 1);
        bytes.truncate(cut as usize);
        good(self.disk.truncate(id, cut));
    }

    fn sync(&mut self, id: FileId, _: String) {
        good(self.disk.sync(id));
    }

    fn read(&mut self, id: FileId, path: String) {
        let bytes = &self.files[&path];
        let from = self.random.below(bytes.len() as u64 + 1) as usize;
        let to = from + self.random.below((bytes.len() - from) as u64 + 1) as usize;
        let mut read = vec![0; to - from];
        good(self.disk.read_at(id, from as u64, &mut read));
        assert!(read == bytes[from..to], "{path}: {from}..{to} is not what was appended");
    }

    fn rename(&mut self) {
        let (from, to) = (self.path(), self.path());
        let answer = self.disk.rename(&from, &to);
        let folder_exists = split(&to).0.is_empty() || self.disk_has_folder(split(&to).0);
        if !self.files.contains_key(&from) {
            assert_eq!(answer, Err(not_found(&from)));
        } else if !folder_exists {
            assert_eq!(answer, Err(not_found(&to)));
        } else {
            good(answer);
            if from != to {
                self.open.retain(|(_, path)| *path != to);
                let bytes = self.files.remove(&from).unwrap_or_default();
                self.files.insert(to.clone(), bytes);
                for (_, path) in self.open.iter_mut().filter(|(_, path)| *path == from) {
                    path.clone_from(&to);
                }
            }
        }
    }

    fn recycle(&mut self) {
        let (from, path) = (self.path(), self.path());
        let opened = self.disk.open(&path, OpenMode::Recycled { from: &from });
        if !self.files.contains_key(&from) {
            assert_eq!(opened, Err(not_found(&from)));
        } else if self.files.contains_key(&path) {
            assert_eq!(opened, Err(exists(&path)));
        } else {
            let id = good(opened);
            self.open.retain(|(_, open)| *open != from);
            self.files.remove(&from);
            self.files.insert(path.clone(), Vec::new());
            // It is never closed: what is opened again may have old bytes.
            good(self.disk.truncate(id, 0));
            self.open.push((id, path));
        }
    }

    fn disk_has_folder(&mut self, folder: &str) -> bool {
        let (above, name) = split(folder);
        good(self.disk.list(above)).iter().any(|entry| entry.is_dir && entry.name == name)
    }

    fn remove(&mut self) {
        let path = self.path();
        let known = self.files.remove(&path).is_some();
        assert_eq!(self.disk.remove(&path), if known { Ok(()) } else { Err(not_found(&path)) });
        self.open.retain(|(_, open)| *open != path);
        // An empty folder is removed too, sometimes.
        let folder = split(&path).0;
        if !folder.is_empty() && self.disk_has_folder(folder) && good(self.disk.list(folder)).is_empty() {
            good(self.disk.remove(folder));
        }
    }

    fn poll(&mut self) {
        if !self.begun.is_empty() {
            let chosen = self.random.below(self.begun.len() as u64) as usize;
            if good(self.disk.sync_done(self.begun[chosen])) {
                self.begun.swap_remove(chosen);
            }
        }
    }

    fn sync_dir(&mut self) {
        let path = self.path();
        let folder = split(&path).0;
        if folder.is_empty() || self.disk_has_folder(folder) {
            good(self.disk.sync_dir(folder));
        }
    }

    fn compare_everything(&mut self) {
        for ticket in std::mem::take(&mut self.begun) {
            wait_for(self.disk, ticket);
        }
        let mut listed = Vec::new();
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            for entry in good(self.disk.list(&folder)) {
                let path = join(&folder, &entry.name);
                if entry.is_dir { folders.push(path) } else { listed.push((path, entry.bytes)) }
            }
        }
        listed.sort();
        let expected: Vec<_> =
            self.files.iter().map(|(path, bytes)| (path.clone(), bytes.len() as u64)).collect();
        assert_eq!(listed, expected);
        for (path, bytes) in &self.files {
            let id = good(self.disk.open(path, OpenMode::Existing));
            assert!(contents(self.disk, id) == *bytes, "{path} is not what was appended");
            self.disk.close(id);
        }
    }
}

fn wait_for(disk: &mut impl Disk, ticket: SyncTicket) {
    let done = (0..POLLS_MAX).any(|_| good(disk.sync_done(ticket)));
    assert!(done, "a background sync is done some time");
}

fn contents(disk: &mut impl Disk, file: FileId) -> Vec<u8> {
    let mut bytes = vec![0; good(disk.bytes(file)) as usize];
    good(disk.read_at(file, 0, &mut bytes));
    bytes
}

fn names(disk: &mut impl Disk, folder: &str) -> Vec<String> {
    good(disk.list(folder)).into_iter().map(|entry| entry.name).collect()
}

fn remove_all(disk: &mut impl Disk, paths: &[&str]) {
    for path in paths {
        good(disk.remove(path));
    }
}

#[track_caller]
fn good<T>(answer: DiskResult<T>) -> T {
    answer.unwrap_or_else(|error| panic!("the disk should have done this: {error}"))
}

#[track_caller]
fn expect_beyond<T: std::fmt::Debug>(answer: DiskResult<T>) {
    assert!(matches!(answer, Err(DiskError::BeyondEnd { .. })), "this lies behind the end: {answer:?}");
}

#[track_caller]
fn expect_failed<T: std::fmt::Debug>(answer: DiskResult<T>) {
    assert!(matches!(answer, Err(DiskError::Failed { .. })), "this should have failed: {answer:?}");
}

fn not_found(path: &str) -> DiskError {
    DiskError::NotFound { path: path.to_owned() }
}

fn exists(path: &str) -> DiskError {
    DiskError::AlreadyExists { path: path.to_owned() }
}

fn beyond(path: &str, offset: u64, bytes: u64) -> DiskError {
    DiskError::BeyondEnd { path: path.to_owned(), offset, bytes }
}
