//! What several fuzz targets share.

use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_engine::disk::{Disk, OpenMode};
use zerohop_engine::{Cursor, Engine, EngineOptions};

/// Opens an engine on a disk with these files. It may refuse them, or find them damaged; it must not panic, and what it
/// opened must be readable, writable and closable.
pub(crate) fn open_engine_on(files: &[(&str, &[u8])]) {
    let disk = SimulatedDisk::new(1);
    let format: (&str, &[u8]) = ("format", b"zerohop engine data, format 1\n");
    for (path, bytes) in files.iter().copied().chain([format]) {
        let mut disk = disk.clone();
        let file = disk.open(path, OpenMode::Create).expect("a fresh disk takes files");
        disk.append(file, bytes).expect("a fresh disk takes bytes");
    }
    disk.power_off_clean();
    let options = EngineOptions { segment_bytes: 4 << 10, disk_reserve_bytes: 0, ..EngineOptions::default() };
    let Ok((mut engine, _)) = Engine::open(disk, options) else { return };
    if engine.commit_all().is_err() {
        return;
    }
    for (_, handle) in engine.partitions().collect::<Vec<_>>() {
        let mut cursor = Some(Cursor::START);
        while let Some(from) = cursor {
            let Ok((keys, next)) = engine.scan(handle, &from) else { break };
            for key in keys {
                // Right, or an error: either is an answer.
                let _ = engine.lookup_assembled(handle, &key);
            }
            cursor = next;
        }
        let written =
            engine.write(handle, zerohop_engine::EntryKind::Put, 0, 1 << 40, b"written behind it", b"v");
        if written.is_ok() {
            let read =
                engine.lookup_assembled(handle, b"written behind it").expect("what was written can be read");
            assert_eq!(read.as_deref(), Some(&b"v"[..]));
        }
    }
    let _ = engine.close();
}
