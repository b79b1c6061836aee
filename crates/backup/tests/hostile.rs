//! Backups that are made to have other files read, or to keep the program busy.
#![allow(missing_docs, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a backup is files of the user's, not of the store")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use zerohop_backup::format::checksum;
use zerohop_backup::format::manifest::{Keyspace, Manifest, Part};
use zerohop_backup::format::part::{PartEntry, PartHeader};

/// A folder that is removed at the end.
struct TestFolder(PathBuf);

impl TestFolder {
    fn new(name: &str) -> TestFolder {
        let path = std::env::temp_dir().join(format!("zerohop-hostile-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        TestFolder(path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

const RECORD: PartEntry<'static> = PartEntry::Bytes { version: 7, deadline: 0, key: b"k", value: b"v" };

/// Writes a backup of one part, with a change of its manifest.
fn backup(folder: &Path, id: u8, entries: &[PartEntry<'_>], change: impl FnOnce(&mut Manifest)) -> PathBuf {
    fs::create_dir_all(folder).unwrap();
    let header = PartHeader { backup: [id; 16], keyspace: 0, partition: 5 };
    let mut bytes = header.encode().to_vec();
    for entry in entries {
        entry.encode(&mut bytes);
    }
    PartEntry::End { entries: entries.len() as u64 }.encode(&mut bytes);
    let length = bytes.len() as u64;
    let part = Part { keyspace: 0, partition: 5, length, checksum: checksum(&bytes), ..Part::default() };
    let path = folder.join(part.file_name());
    fs::write(&path, bytes).unwrap();
    let keyspace = Keyspace { name: "default".to_owned(), id: 1, partitions: 8, ..Keyspace::default() };
    let mut manifest =
        Manifest { id: [id; 16], keyspaces: vec![keyspace], parts: vec![part], ..Manifest::default() };
    change(&mut manifest);
    fs::write(folder.join("manifest.zhb"), manifest.encode()).unwrap();
    path
}

/// The reason for which a backup is refused, and the number of parts that were read before.
fn refused(folder: &Path, bases: &[PathBuf]) -> (String, usize) {
    let mut read = 0;
    let error = zerohop_backup::check(folder, bases, &mut |_, _| read += 1).unwrap_err();
    (error.to_string(), read)
}

#[test]
fn links_and_other_non_files_in_a_backup_are_refused() {
    let folder = TestFolder::new("links");
    for name in ["part", "manifest"] {
        let (own, outside) = (folder.at(name), folder.at(&format!("outside of {name}")));
        let part = backup(&own, 1, &[RECORD], |_| ());
        assert!(zerohop_backup::check(&own, &[], &mut |_, _| ()).is_ok());
        let file = if name == "part" { part } else { own.join("manifest.zhb") };
        // What is outside would be whole.
        fs::rename(&file, &outside).unwrap();
        for target in [outside.clone(), PathBuf::from(format!("../outside of {name}")), folder.at("nowhere")]
        {
            symlink(&target, &file).unwrap();
            let (why, read) = refused(&own, &[]);
            assert!(why.contains("it is a symbolic link") && read == 0, "{why}");
            fs::remove_file(&file).unwrap();
        }
        fs::create_dir(&file).unwrap();
        assert!(refused(&own, &[]).0.contains("it is no file"));
    }
}

#[test]
fn manifest_does_not_choose_folder_of_its_base() {
    let folder = TestFolder::new("bases");
    let outside = folder.at("elsewhere/full");
    backup(&outside, 1, &[RECORD], |_| ());
    let kept = [PartEntry::Kept { version: 7, deadline: 0, length: 1, key: b"k" }];
    let own = folder.at("mine/next");
    let absolute = outside.to_str().unwrap().to_owned();
    for recorded in
        [&*absolute, "../elsewhere/full", "../../elsewhere/full", "../../elsewhere/..", "..", "/", ""]
    {
        backup(&own, 2, &kept, |manifest| {
            (manifest.base, manifest.base_folder) = ([1; 16], recorded.to_owned());
        });
        let (why, read) = refused(&own, &[]);
        assert!(why.contains("name its folder with --base") && read == 0, "{recorded}: {why}");
        // The user may name it.
        let chain = zerohop_backup::check(&own, std::slice::from_ref(&outside), &mut |_, _| ()).unwrap();
        assert_eq!(chain.folders().count(), 2);
    }
    // Beside the backup it is found by its last name.
    backup(&folder.at("mine/full"), 1, &[RECORD], |_| ());
    backup(&own, 2, &kept, |manifest| (manifest.base, manifest.base_folder) = ([1; 16], absolute));
    let chain = zerohop_backup::check(&own, &[], &mut |_, _| ()).unwrap();
    assert_eq!(chain.folders().nth(1), Some(&*fs::canonicalize(folder.at("mine/full")).unwrap()));
}

#[test]
fn wrong_sizes_in_a_backup_are_refused_at_once() {
    let folder = TestFolder::new("sizes");
    let of = |name: &str, change: &dyn Fn(&mut Manifest)| {
        backup(&folder.at(name), 1, &[RECORD], |manifest| change(manifest));
        refused(&folder.at(name), &[]).0
    };
    let other_length = "another length than the manifest says";
    assert!(of("short", &|manifest| manifest.parts[0].length -= 1).contains(other_length));
    assert!(of("long", &|manifest| manifest.parts[0].length = u64::MAX).contains(other_length));
    // A file that is far longer is not read: it has holes, so that it takes no room on the disk.
    let part = backup(&folder.at("holes"), 1, &[RECORD], |_| ());
    fs::File::options().write(true).open(part).unwrap().set_len(1 << 40).unwrap();
    assert!(refused(&folder.at("holes"), &[]).0.contains(other_length));
    backup(&folder.at("manifest"), 1, &[RECORD], |_| ());
    let manifest = fs::File::options().write(true).open(folder.at("manifest/manifest.zhb")).unwrap();
    manifest.set_len(1 << 40).unwrap();
    assert!(refused(&folder.at("manifest"), &[]).0.contains("longer than any manifest"));

    let blob = PartEntry::Blob { version: 7, id: 1, size: 9, chunk_bits: 12, name: b"b", attributes: b"" };
    for (number, bytes) in [(1 << 52, 1), (u64::MAX, 1), (0, 4097)] {
        let bytes = vec![0; bytes];
        let chunk = PartEntry::Chunk { number, version: 7, bytes: &bytes };
        let own = folder.at(&format!("chunk {number} {}", bytes.len()));
        backup(&own, 1, &[blob.clone(), chunk], |_| ());
        let (why, read) = refused(&own, &[]);
        assert!(why.contains("a chunk is outside of its blob") && read == 0, "{why}");
    }
}

#[test]
fn claimed_number_of_partitions_costs_no_time() {
    let folder = TestFolder::new("partitions");
    backup(&folder.at("full"), 1, &[RECORD], |_| ());
    let kept = [PartEntry::Kept { version: 7, deadline: 0, length: 1, key: b"k" }];
    // Visiting each of them would take days.
    backup(&folder.at("next"), 2, &kept, |manifest| {
        (manifest.base, manifest.base_folder) = ([1; 16], "full".to_owned());
        let one = Keyspace { partitions: u32::MAX, ..manifest.keyspaces[0].clone() };
        manifest.keyspaces = vec![one; 10_000];
    });
    assert!(zerohop_backup::check(&folder.at("next"), &[], &mut |_, _| ()).is_ok());
}
