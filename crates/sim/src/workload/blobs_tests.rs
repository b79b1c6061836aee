//! How reads of blobs are interpreted.

use super::*;

fn contents<'c>(size: u64, chunks: Vec<(u64, &'c [u8])>) -> BlobContents<'c> {
    BlobContents { blob: 1, edition: 7, change: 9, order: 100, size, chunks }
}

/// A chunk of numbers.
fn numbers((integer, float): (i64, f64), marks: u32) -> Vec<u8> {
    let mut bytes = vec![0; MARKS as usize];
    bytes[SHARES[0] as usize..][..8].copy_from_slice(&integer.to_le_bytes());
    bytes[SHARES[1] as usize..][..8].copy_from_slice(&float.to_le_bytes());
    bytes.extend_from_slice(&marks.to_le_bytes());
    bytes
}

/// Three chunks with tokens, two of numbers, a tail.
fn with<'c>(base: [&'c [u8]; 3], numbers: [&'c [u8]; 2], tail: &[&'c [u8]]) -> Vec<(u64, &'c [u8])> {
    let all = base.iter().chain(&numbers).chain(tail);
    (5..).zip(all).map(|(version, bytes)| (version, *bytes)).collect()
}

/// A tail of added tokens and of staged ones, in two chunks.
fn tail(added: &[u64], last: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (record, value) in (1..).zip(added) {
        bytes.extend(token(*value));
        bytes.resize(record * RECORD_BYTES as usize, 0);
    }
    bytes.extend(staged_bytes(last));
    bytes.resize(2 * CHUNK_BYTES as usize, 0);
    bytes
}

#[test]
fn blob_read_identifies_writes_that_it_shows() {
    let (first, second) = (token(3), token(4));
    let (one, other) = (numbers((-5, 0.5), 0), numbers((5, -0.5), 0b101));
    let tail = tail(&[21], &[22, 23]);
    let (front, back) = tail.split_at(CHUNK_BYTES as usize);
    let chunks = with([&first, &second, &first], [&one, &other], &[front, &back[..14]]);
    let read = contents(BASE_BYTES + 3 * RECORD_BYTES, chunks).actions().unwrap();
    assert_eq!(read[0], CheckedAction::Look { key: header_id(1), value: 9, version: 100 });
    assert!(read.contains(&CheckedAction::Look { key: chunk_id(7, 1), value: 4, version: 6 }));
    for (mark, values) in [(0, vec![MARKED]), (1, vec![]), (2, vec![MARKED])] {
        assert!(read.contains(&CheckedAction::Read { key: mark_id(7, 4, mark), values }), "{mark}");
    }
    assert_eq!(read.last(), Some(&CheckedAction::Read { key: tail_id(9), values: vec![21, 22, 23] }));
}

#[test]
fn impossible_contents_are_detected() {
    let (whole, torn) = (token(3), &token(3)[..5]);
    assert!(contents(0, Vec::new()).actions().is_err(), "no client leaves it empty");
    assert!(contents(1, Vec::new()).actions().is_err(), "no such size");
    let of = |last: &[u8], number: &[u8]| {
        contents(BASE_BYTES, with([&whole, &whole, last], [number, &[]], &[])).actions().is_ok()
    };
    assert!(of(&whole, &[]));
    assert!(!of(torn, &[]) && !of(&[], &[]), "some of a token, and none");
    assert!(!of(&whole, b"x"), "something beside the numbers");
    let lacks = with([&whole, &whole, &whole], [&[], &[]], &[torn]);
    assert!(contents(BASE_BYTES + RECORD_BYTES, lacks).actions().is_err(), "some of an added one");
}

#[test]
fn shares_with_wrong_sum_are_refused() {
    let whole = token(3);
    let of = |one: (i64, f64), other: (i64, f64)| {
        let (one, other) = (numbers(one, 0), numbers(other, 0));
        contents(BASE_BYTES, with([&whole, &whole, &whole], [&one, &other], &[])).actions().is_ok()
    };
    assert!(of((-1, 2.0), (1, -2.0)));
    assert!(!of((-1, 0.0), (0, 0.0)), "an integer");
    assert!(!of((0, 2.0), (0, -4.0)), "a float");
}

#[test]
fn overwritten_staged_extension_is_noticed() {
    let whole = token(3);
    let is_well = |tail: &[u8]| {
        let (one, other) = tail.split_at(CHUNK_BYTES as usize);
        let chunks = with([&whole, &whole, &whole], [&[], &[]], &[one, other]);
        contents(BASE_BYTES + 2 * RECORD_BYTES, chunks).actions().is_ok()
    };
    let mut tail = tail(&[], &[21, 22]);
    assert!(is_well(&tail));
    tail[..TOKEN_BYTES].copy_from_slice(&token(23));
    assert!(!is_well(&tail), "of another's, some is left");
}

#[test]
fn blob_attributes_decode_to_encoded_values() {
    assert_eq!(read_attributes(&attributes(12, 34)), Some((12, 34)));
    assert_eq!(read_attributes(b"<0000000012>"), None);
}

#[test]
fn marks_have_unique_ids() {
    let of = |edition| NUMBERS.flat_map(move |chunk| mark_reads(edition, chunk, 0));
    let all: std::collections::BTreeSet<u64> = (1..5)
        .flat_map(of)
        .map(|action| match action {
            CheckedAction::Read { key, .. } => key,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(all.len() as u64, 4 * 2 * u64::from(MARKS_MAX));
    assert!(all.into_iter().all(is_mark));
}

#[test]
fn key_of_unknown_place_names_blob_and_place() {
    let places = [BlobPlace::Chunk(2), BlobPlace::Mark(4, 31), BlobPlace::Tail, BlobPlace::Chunk(0)];
    for (blob, place) in (0..).zip(places) {
        assert_eq!(unplaced(unplaced_id(blob, place)), Some((blob, place)));
        assert_eq!(unplaced(placed_id(place, (7, 9))), None);
    }
}
