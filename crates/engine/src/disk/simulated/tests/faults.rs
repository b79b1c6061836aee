//! Each fault has its documented effect, and only when it is on.

use super::*;

fn is_failure<T>(answer: DiskResult<T>) -> bool {
    matches!(answer, Err(DiskError::Failed { .. }))
}

#[test]
fn only_the_chosen_call_of_an_operation_fails() {
    let mut disk = SimulatedDisk::new(1);
    let id = append(&mut disk, "f", b"");
    disk.fail_nth(DiskOperation::Append, 3);
    let failed: Vec<bool> = (0..5).map(|_| is_failure(disk.append(id, b"xy"))).collect();
    assert_eq!(failed, [false, false, true, false, false]);
    assert_eq!(disk.bytes(id), Ok(8), "a failed append leaves the length as it was");
}

#[test]
fn every_operation_can_be_made_to_fail_without_effect_on_names_and_lengths() {
    for operation in DiskOperation::ALL {
        if operation == DiskOperation::Close {
            continue;
        }
        let mut disk = SimulatedDisk::new(2);
        let id = append(&mut disk, "d/f", b"bytes");
        let ticket = disk.sync_begin(id).unwrap();
        disk.set_faults(SimulatedFaults::default().failing(operation, 1, 1));
        let failed = match operation {
            DiskOperation::Open => is_failure(disk.open("d/g", OpenMode::Create)),
            DiskOperation::Close => unreachable!("skipped above"),
            DiskOperation::Bytes => is_failure(disk.bytes(id)),
            DiskOperation::Append => is_failure(disk.append(id, b"x")),
            DiskOperation::ReadAt => is_failure(disk.read_at(id, 0, &mut [0])),
            DiskOperation::Sync => is_failure(disk.sync(id)),
            DiskOperation::SyncBegin => is_failure(disk.sync_begin(id)),
            DiskOperation::SyncDone => is_failure(disk.sync_done(ticket)),
            DiskOperation::Truncate => is_failure(disk.truncate(id, 1)),
            DiskOperation::Rename => is_failure(disk.rename("d/f", "d/g")),
            DiskOperation::Remove => is_failure(disk.remove("d/f")),
            DiskOperation::List => is_failure(disk.list("d")),
            DiskOperation::SyncDir => is_failure(disk.sync_dir("d")),
            DiskOperation::FreeBytes => is_failure(disk.free_bytes()),
        };
        assert!(failed, "{operation:?}");
        disk.set_faults(SimulatedFaults::default());
        assert_eq!(disk.list("d").unwrap().len(), 1, "{operation:?}");
        assert_eq!(read(&mut disk, "d/f").unwrap(), b"bytes", "{operation:?}");
    }
}

#[test]
fn failure_rate_is_met() {
    let mut disk = SimulatedDisk::new(3);
    let id = append(&mut disk, "f", b"x");
    disk.set_faults(SimulatedFaults::default().failing(DiskOperation::ReadAt, 1, 4));
    let failures = (0..4000).filter(|_| disk.read_at(id, 0, &mut [0]).is_err()).count();
    assert!((850..1150).contains(&failures), "{failures}");
}

#[test]
fn later_sync_does_not_clear_failed_sync() {
    for begun in [false, true] {
        let mut lost = 0;
        for seed in 0..50 {
            let mut disk = SimulatedDisk::new(seed);
            let id = append(&mut disk, "f", &[7; 4096]);
            disk.sync_dir("").unwrap();
            if begun {
                disk.fail_nth(DiskOperation::SyncDone, 1);
                let ticket = disk.sync_begin(id).unwrap();
                assert!(is_failure(disk.sync_done(ticket)));
                assert!(is_failure(disk.sync_done(ticket)), "an answered ticket is forgotten");
            } else {
                disk.fail_nth(DiskOperation::Sync, 1);
                assert!(is_failure(disk.sync(id)));
            }
            disk.sync(id).unwrap();
            disk.crash();
            lost += u32::from(read(&mut disk, "f").unwrap() != [7; 4096]);
        }
        assert!(lost > 30, "{lost}");
    }
}

#[test]
fn a_failed_folder_sync_leaves_a_prefix_of_names_durable_and_can_be_repeated() {
    for seed in 0..50 {
        let mut disk = SimulatedDisk::new(seed);
        append(&mut disk, "a", b"");
        append(&mut disk, "b", b"");
        disk.fail_nth(DiskOperation::SyncDir, 1);
        assert!(is_failure(disk.sync_dir("")));
        let mut crashed = disk.duplicate();
        crashed.crash();
        assert!(crashed.list("").unwrap().len() <= 2);
        assert!(read(&mut crashed, "b").is_none() || read(&mut crashed, "a").is_some());
        disk.sync_dir("").unwrap();
        disk.crash();
        assert_eq!(disk.list("").unwrap().len(), 2);
    }
}

#[test]
fn full_disk_refuses_writes_until_space_is_freed() {
    let mut disk = SimulatedDisk::new(4);
    disk.set_capacity(1000);
    let first = append(&mut disk, "a", &[1; 600]);
    let second = append(&mut disk, "b", &[2; 300]);
    assert_eq!(disk.free_bytes(), Ok(100));
    assert_eq!(disk.append(second, &[2; 101]), Err(DiskError::Full));
    assert_eq!(disk.bytes(second), Ok(300));
    disk.append(second, &[2; 100]).unwrap();
    disk.truncate(first, 550).unwrap();
    assert_eq!(disk.free_bytes(), Ok(50));
    disk.rename("b", "a").unwrap();
    assert_eq!(disk.free_bytes(), Ok(600), "the replaced file is free");
    disk.remove("a").unwrap();
    assert_eq!(disk.free_bytes(), Ok(1000));
    disk.set_capacity(None);
    append(&mut disk, "c", &[3; 5000]);
}

#[test]
fn free_space_is_recomputed_after_a_crash() {
    let mut disk = SimulatedDisk::new(5);
    disk.set_capacity(10_000);
    let id = append(&mut disk, "kept", &[1; 600]);
    disk.sync(id).unwrap();
    disk.sync_dir("").unwrap();
    disk.crash();
    assert_eq!(disk.free_bytes(), Ok(9400));
}

#[test]
fn corruption_changes_durable_bytes_and_reports_them() {
    let mut disk = SimulatedDisk::new(6);
    assert_eq!(disk.corrupt_random(3), []);
    for (path, bytes) in [("a", vec![0u8; 100]), ("d/b", vec![0; 100_000])] {
        let id = append(&mut disk, path, &bytes);
        disk.sync(id).unwrap();
    }
    let hits = disk.corrupt_random(20);
    assert_eq!(hits.len(), 20);
    assert!(hits.iter().filter(|hit| hit.path == "d/b").count() > 10, "larger files are hit more often");
    let mut expected = BTreeMap::from([("a".to_owned(), vec![0; 100]), ("d/b".to_owned(), vec![0; 100_000])]);
    for hit in hits {
        expected.get_mut(&hit.path).unwrap()[hit.offset as usize] ^= hit.mask;
    }
    for (path, bytes) in expected {
        assert!(read(&mut disk, &path).unwrap() == bytes, "{path}");
    }
}

#[test]
fn corruption_at_hits_durable_bytes_only_and_survives_a_crash() {
    let mut disk = SimulatedDisk::new(7);
    let id = append(&mut disk, "f", &[0; 1024]);
    assert!(matches!(disk.corrupt_at("f", 0, 1), Err(DiskError::BeyondEnd { .. })), "nothing is durable yet");
    assert!(matches!(disk.corrupt_at("g", 0, 1), Err(DiskError::NotFound { .. })));
    disk.sync(id).unwrap();
    disk.sync_dir("").unwrap();
    disk.corrupt_at("f", 700, 0x81).unwrap();
    assert_eq!(read(&mut disk, "f").unwrap()[700], 0x81);
    disk.crash();
    assert_eq!(read(&mut disk, "f").unwrap()[700], 0x81);
}

#[test]
fn lost_syncs_succeed_without_effect() {
    let mut lost = 0;
    for seed in 0..50 {
        let mut disk = SimulatedDisk::new(seed);
        disk.lose_syncs(true);
        let id = append(&mut disk, "f", &[7; 3000]);
        disk.sync(id).unwrap();
        let ticket = disk.sync_begin(id).unwrap();
        while !disk.sync_done(ticket).unwrap() {}
        disk.sync_dir("").unwrap();
        let mut honest = disk.duplicate();
        honest.lose_syncs(false);
        honest.sync(id).unwrap();
        honest.crash();
        assert_eq!(read(&mut honest, "f").unwrap(), [7; 3000]);
        disk.crash();
        lost += u32::from(read(&mut disk, "f").unwrap() != [7; 3000]);
    }
    assert!(lost > 20, "{lost}");
}

#[test]
fn lost_folder_syncs_succeed_without_effect() {
    let mut lost = 0;
    for seed in 0..50 {
        let mut disk = SimulatedDisk::new(seed);
        disk.set_faults(SimulatedFaults { lose_folder_syncs: true, ..SimulatedFaults::default() });
        append(&mut disk, "f", b"x");
        disk.sync_dir("").unwrap();
        disk.crash();
        lost += u32::from(read(&mut disk, "f").is_none());
    }
    assert!(lost > 10, "{lost}");
}

#[test]
fn time_passes_by_operation_by_byte_by_sync_and_by_stall() {
    let mut disk = SimulatedDisk::new(8);
    disk.set_latency(Latency { operation_us: 10, kib_us: 2, sync_us: 100 });
    let id = disk.open("f", OpenMode::Create).unwrap();
    assert_eq!(disk.elapsed_us(), 10);
    disk.append(id, &[0; 1025]).unwrap();
    assert_eq!(disk.elapsed_us(), 24);
    disk.sync(id).unwrap();
    assert_eq!(disk.elapsed_us(), 134);
    disk.set_faults(SimulatedFaults::default().stalling(1, 1, 5000));
    disk.bytes(id).unwrap();
    assert_eq!(disk.elapsed_us(), 5144);
}

#[test]
fn calls_and_bytes_are_counted() {
    let mut disk = SimulatedDisk::new(9);
    let id = append(&mut disk, "f", &[0; 100]);
    disk.sync(id).unwrap();
    disk.read_at(id, 10, &mut [0; 30]).unwrap();
    assert!(disk.read_at(id, 100, &mut [0; 30]).is_err());
    let counts = disk.counts();
    assert_eq!(counts.of(DiskOperation::Sync), 1);
    assert_eq!(counts.of(DiskOperation::ReadAt), 2);
    assert_eq!(counts.of(DiskOperation::Rename), 0);
    assert_eq!((counts.bytes_written, counts.bytes_read), (100, 30));
}

#[test]
fn fault_switch_does_not_shift_random_draws_of_other_faults() {
    let run = |faults: SimulatedFaults, corruption: usize| {
        let mut disk = SimulatedDisk::new(10);
        let id = append(&mut disk, "f", &[1; 9000]);
        disk.sync_dir("").unwrap();
        disk.set_faults(faults);
        disk.corrupt_random(corruption);
        for _ in 0..20 {
            // Only reads fail here, so that nothing but the draws can differ.
            let _ = disk.read_at(id, 0, &mut [0]);
        }
        disk.set_faults(SimulatedFaults::default());
        let ticket = disk.sync_begin(id).unwrap();
        let polls = (0..10).take_while(|_| !disk.sync_done(ticket).unwrap()).count();
        disk.append(id, &[2; 9000]).unwrap();
        disk.crash();
        (polls, read(&mut disk, "f"))
    };
    let plain = run(SimulatedFaults::default(), 0);
    assert_eq!(plain, run(SimulatedFaults::default().failing(DiskOperation::ReadAt, 1, 2), 0));
    assert_eq!(plain, run(SimulatedFaults::default().stalling(1, 2, 9), 0));
    assert_eq!(plain, run(SimulatedFaults::default(), 5), "nothing is durable when the corruption strikes");
}
