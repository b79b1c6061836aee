//! `docs/protocols/wire.md` names every number that this crate knows, with its name.

use crate::support::protobuf::assert_specified;
use zerohop_record::operations::OperationFacts;
use zerohop_wire::messages::{Query, RecordType, Shape, WriteChange};
use zerohop_wire::{AbortReason, AuthFault, BadRequestReason, ErrorCode, FrameKind, limits};

const SPECIFICATION: &str = include_str!("../../../../docs/protocols/wire.md");

/// Asserts that the document contains this text, wherever its lines are wrapped.
fn assert_says(row: &str) {
    let unwrapped = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        unwrapped(SPECIFICATION).contains(&unwrapped(row)),
        "docs/protocols/wire.md has nothing like: {row}"
    );
}

#[test]
fn the_specification_has_a_row_for_every_number() {
    for kind in FrameKind::ALL {
        assert_says(&format!("\n| {:#06x} | {kind} |", kind.number()));
    }
    for code in ErrorCode::ALL {
        assert_says(&format!("\n| {} | {code} |", code.number()));
    }
    for what in BadRequestReason::ALL {
        assert_says(&format!("\n| {} | {what} |\n", what.number()));
    }
    for fault in AuthFault::ALL {
        assert_says(&format!("\n| {} | {fault} |\n", fault.number()));
    }
    for reason in AbortReason::ALL {
        assert_says(&format!("\n| {} | {reason} |\n", reason.number()));
    }
    for shape in Shape::ALL {
        assert_says(&format!("\n| {} | {shape} |", shape.number()));
    }
    let types = [RecordType::Bytes, RecordType::List, RecordType::Chunk].map(RecordType::number);
    assert_eq!(types, [1, 2, 3]);
}

#[test]
fn the_specification_states_the_limits() {
    let stated = [
        ("length of the body, at most ", limits::BODY_BYTES_MAX as u64, " "),
        ("| key | ", limits::KEY_BYTES_MAX as u64, " bytes |"),
        ("| value | ", limits::VALUE_BYTES_MAX as u64, " bytes |"),
        ("| cursor | ", limits::CURSOR_BYTES_MAX as u64, " bytes |"),
        ("| body of `admin` | ", limits::ADMIN_BYTES_MAX as u64, " bytes |"),
        ("| client's name | ", limits::CLIENT_NAME_BYTES_MAX as u64, " bytes |"),
        ("| bit offset | ", limits::BIT_OFFSET_MAX, " |"),
        ("at most ", limits::SESSION_WINDOW_MAX, " below it"),
        ("frames have at most ", limits::HELLO_BODY_BYTES_MAX as u64, " bytes"),
        ("a text of 32 to ", limits::SECRET_BYTES_MAX as u64, " bytes"),
        ("| batch | ", limits::BATCH_ITEMS_MAX.into(), " operations |"),
        ("| `gather`, `gathered` | ", limits::COALESCED_MAX.into(), " requests, answers |"),
        ("has at most ", limits::TRANSACTION_ITEMS_MAX.into(), " items"),
        ("the piece, at most ", limits::STAGED_PIECE_BYTES_MAX as u64, " bytes"),
        ("keys at most, 1 to ", limits::SCAN_PAGE_KEYS_MAX.into(), " "),
    ];
    for (before, number, after) in stated {
        assert_says(&format!("{before}{}{after}", grouped(number)));
    }
}

/// The number with a comma between every three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[test]
fn the_specification_has_the_rows_of_the_table_of_operations() {
    for row in Query::TABLE.iter().chain(WriteChange::TABLE) {
        let OperationFacts { kind, detail, fields, payload, answer, .. } = row;
        assert_says(&format!("\n| {:#06x} | {kind} | answer: {answer} |", kind.number()));
        assert_says(&format!("\n| {kind} | {detail} | {fields} | {payload} |"));
    }
}

#[test]
fn control_requests_are_as_specified() {
    let sources = [
        include_str!("../../src/admin.rs"),
        include_str!("../../src/admin/damaged.rs"),
        include_str!("../../src/admin/refused.rs"),
        include_str!("../../src/admin/history.rs"),
        include_str!("../../src/admin/tokens.rs"),
        include_str!("../../src/admin/view.rs"),
        include_str!("../../src/admin/descriptors.rs"),
        include_str!("../../src/admin/watches.rs"),
    ];
    const SPECIFICATION: &str = include_str!("../../../../docs/protocols/admin.proto");
    assert_specified(SPECIFICATION, &sources);
    for code in refusal_codes(sources[2]) {
        assert!(SPECIFICATION.contains(&format!(" {code}")), "docs/protocols/admin.proto has no code {code}");
    }
}

/// The codes that the source of refusals declares.
fn refusal_codes(source: &str) -> Vec<&str> {
    let declared = source.lines().filter(|line| line.starts_with("pub const REFUSED_"));
    let codes: Vec<&str> = declared.filter_map(|line| line.split('"').nth(1)).collect();
    assert!(codes.len() > 5, "the source declares codes");
    codes
}
