//! Bytes that were once sent or written, pinned in `golden/`: every later program must read them the same. A
//! line that no longer matches means that programs of two versions would misunderstand each other.

use std::collections::BTreeSet;

/// Asserts that the encodings match the pinned lines. A line has the first word of the value's debug output,
/// and the bytes.
pub(crate) fn assert_golden(pinned: &str, vectors: impl IntoIterator<Item = (String, Vec<u8>)>) {
    let mut text = String::new();
    for (shown, bytes) in vectors {
        let name: String = shown.chars().take_while(|c| c.is_alphanumeric()).collect();
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        text.push_str(&format!("{name} {digits}\n"));
    }
    for (line, (written, pinned)) in (1..).zip(text.lines().zip(pinned.lines())) {
        assert_eq!(written, pinned, "line {line} is not what is pinned");
    }
    assert_eq!(text, pinned, "lines are pinned that are not written, or the other way round");
}

/// The bytes of each pinned line.
pub(crate) fn pinned_bytes(pinned: &str) -> impl Iterator<Item = Vec<u8>> {
    let digits = pinned.lines().map(|line| line.split_once(' ').expect("a name and digits").1);
    digits.map(|digits| {
        let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits");
        (0..digits.len()).step_by(2).map(byte).collect()
    })
}

/// The field numbers of a `oneof` in `docs/protocols/control.proto`.
pub(crate) fn fields_of(one_of: &str) -> BTreeSet<u64> {
    const SPECIFICATION: &str = include_str!("../../../docs/protocols/control.proto");
    let (_, behind) = SPECIFICATION.split_once(&format!("oneof {one_of} {{\n")).expect("it is specified");
    let (fields, _) = behind.split_once("  }\n").expect("it ends");
    let number = |line: &str| -> u64 {
        let (_, number) = line.split_once(" = ").expect("a field has a number");
        number.split(';').next().and_then(|number| number.parse().ok()).expect("a number")
    };
    fields.lines().map(number).collect()
}

/// The field numbers that are set in a Protocol Buffers message.
pub(crate) fn fields_in(mut bytes: &[u8]) -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        found.insert(key >> 3);
        let length = match key & 7 {
            0 => {
                varint(&mut bytes);
                0
            }
            1 => 8,
            2 => varint(&mut bytes),
            _ => 4,
        };
        bytes = &bytes[length as usize..];
    }
    found
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let length = bytes.iter().take_while(|byte| **byte >= 0x80).count() + 1;
    let (own, rest) = bytes.split_at(length);
    *bytes = rest;
    own.iter().rev().fold(0, |number, byte| number << 7 | u64::from(byte & 0x7f))
}
