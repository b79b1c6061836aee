//! The simulated disk keeps the contract, keeps synced data through every crash, and produces each requested fault.

use std::collections::BTreeMap;

use super::*;
use crate::disk::contract::{check_against_model, check_contract};
use zerohop_base::random::Random;

mod crashes;
mod faults;

fn append(disk: &mut SimulatedDisk, path: &str, data: &[u8]) -> FileId {
    let id = disk.open(path, OpenMode::Create).unwrap();
    disk.append(id, data).unwrap();
    id
}

fn read(disk: &mut SimulatedDisk, path: &str) -> Option<Vec<u8>> {
    let id = disk.open(path, OpenMode::Existing).ok()?;
    let mut bytes = vec![0; disk.bytes(id).unwrap() as usize];
    disk.read_at(id, 0, &mut bytes).unwrap();
    disk.close(id);
    Some(bytes)
}

#[test]
fn simulated_disk_satisfies_disk_contract() {
    for seed in 0..20 {
        check_contract(&mut SimulatedDisk::new(seed));
    }
}

#[test]
fn agrees_with_the_model() {
    for seed in 0..300 {
        check_against_model(&mut SimulatedDisk::new(seed), seed, 200);
    }
}

#[test]
fn same_seed_gives_the_same_disk() {
    let run = || {
        let mut disk = SimulatedDisk::new(5);
        check_against_model(&mut disk, 8, 300);
        disk.crash();
        let corruption = disk.corrupt_random(5);
        let mut everything = vec![format!("{corruption:?} {:?} {}", disk.counts(), disk.elapsed_us())];
        for folder in ["", "p", "p/q", "r"] {
            for entry in disk.list(folder).unwrap().into_iter().filter(|entry| !entry.is_dir) {
                let path = crate::disk::path::join(folder, &entry.name);
                everything.push(format!("{path} {:?}", read(&mut disk, &path)));
            }
        }
        everything
    };
    assert_eq!(run(), run());
}

#[test]
fn duplicate_disk_shares_no_state() {
    let mut disk = SimulatedDisk::new(1);
    append(&mut disk, "f", b"both");
    let mut other = disk.duplicate();
    append(&mut other, "g", b"one");
    other.power_off_clean();
    assert_eq!(read(&mut disk, "g"), None);
    assert_eq!(read(&mut other, "f").unwrap(), b"both");
}
