//! The committed inputs of every fuzz target, those of fixed bugs among them, break nothing.
#![allow(clippy::disallowed_methods, reason = "a test that reads its inputs")]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use suite_decoders::ALL;

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus")
}

#[test]
fn committed_inputs_break_no_target() {
    for (name, run) in ALL {
        let mut replayed = 0;
        for entry in fs::read_dir(corpus().join(name)).unwrap() {
            let path = entry.unwrap().path();
            let bytes = fs::read(&path).unwrap();
            let ended = std::panic::catch_unwind(|| run(&bytes));
            assert!(ended.is_ok(), "{}: replay it with `cargo xtask fuzz {name} --replay`", path.display());
            replayed += 1;
        }
        assert!(replayed > 0, "{name} has no inputs");
    }
}

#[test]
fn truncated_and_bit_flipped_inputs_break_no_target() {
    for (name, run) in ALL {
        for entry in fs::read_dir(corpus().join(name)).unwrap() {
            let bytes = fs::read(entry.unwrap().path()).unwrap();
            // A few places spread over the input: fuzzing searches on.
            for at in (0..bytes.len()).step_by(bytes.len().div_ceil(8).max(1)) {
                run(&bytes[..at]);
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << (at % 8);
                run(&flipped);
            }
        }
    }
}

#[test]
fn every_folder_of_inputs_is_replayed() {
    let folders: BTreeSet<String> = fs::read_dir(corpus())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    let targets: BTreeSet<String> = ALL.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(folders, targets);
}
