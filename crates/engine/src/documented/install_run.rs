//! `install-run.md`.

use super::tables::{Document, check, check_comments, field};
use crate::log::entry::crc;
use crate::log::shared::install_run::{InstallPlace, RUN_HEADER_BYTES, RunHeader, RunStage};

const DOCUMENT: &str = include_str!("../../../../docs/formats/install-run.md");

#[test]
fn runs_are_as_documented() {
    check(DOCUMENT, header);
    check_comments(DOCUMENT, include_str!("../log/shared/install_run.rs"));
}

fn header(document: &mut Document<'_>) {
    let begins =
        InstallPlace { stage: RunStage::Chains, at: 0x1112_1314_1516_1718, after: 0x2122_2324_2526_2728 };
    let next = InstallPlace { at: 0x3132_3334_3536_3738, ..begins };
    let header =
        RunHeader { index_seed: 0x4142_4344_4546_4748, timestamp: 0x5152_5354_5556_5758, begins, next };
    let bytes = header.encode();
    assert_eq!(RunHeader::decode(&bytes), Some((header, &[][..])));
    let fields = [
        field("`zhr1`", b"zhr1"),
        field("CRC-32C of bytes 8 to 72", crc(&bytes[8..]).to_le_bytes()),
        field("index seed", header.index_seed.to_le_bytes()),
        field("timestamp", header.timestamp.to_le_bytes()),
        field("the place where the run begins", &bytes[24..48]),
        field("the place where the next run begins", &bytes[48..72]),
    ];
    document.layout(&format!("Header, {RUN_HEADER_BYTES} bytes / offset"), &[], &bytes, &fields);
    let fields = [
        field("stage", 1u32.to_le_bytes()),
        field("zero", [0; 4]),
        field("number of the segment", begins.at.to_le_bytes()),
        field("log index", begins.after.to_le_bytes()),
    ];
    document.layout(
        &format!("Header, {RUN_HEADER_BYTES} bytes / offset, second"),
        &[],
        &bytes[24..48],
        &fields,
    );
}
