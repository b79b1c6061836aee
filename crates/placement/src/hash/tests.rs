//! Properties of every kind: names, results that never change, even top bits, and effective seeds.

use super::*;
use crate::partitions::{PartitionCount, partition_of};
use proptest::prelude::*;

/// The buffer of the reference implementation's own sanity checks, `XSUM_fillTestBuffer`.
fn xxh_test_buffer(bytes: usize) -> Vec<u8> {
    let mut generator = 2_654_435_761_u64;
    (0..bytes)
        .map(|_| {
            let byte = (generator >> 56) as u8;
            generator = generator.wrapping_mul(11_400_714_785_074_694_797);
            byte
        })
        .collect()
}

#[test]
fn xxh3_gives_the_published_answers() {
    let buffer = xxh_test_buffer(256);
    // From `xsum_sanity_check.c`: length, seed, result.
    const PRIME64: u64 = 11_400_714_785_074_694_797;
    for (length, seed, answer) in [
        (0, 0, 0x2d06_8005_38d3_94c2),
        (0, PRIME64, 0xa8a6_b918_b2f0_364a),
        (1, 0, 0xc44b_dff4_074e_ecdb),
        (1, PRIME64, 0x032b_e332_dd76_6ef8),
        (6, 0, 0x27b5_6a84_cd2d_7325),
        (12, 0, 0xa713_daf0_dfbb_77e7),
        (24, 0, 0xa3fe_70bf_9d35_10eb),
        (48, 0, 0x397d_a259_ecba_1f11),
        (80, 0, 0xbcde_fbbb_2c47_c90a),
    ] {
        assert_eq!(HashKind::Xxh3.hash(seed, &buffer[..length]), answer, "length {length} seed {seed}");
    }
}

/// These results determine where data is placed: a change would lose it.
#[test]
fn answers_never_change() {
    for (kind, plain, seeded) in PINNED {
        assert_eq!(kind.hash(0, b"zero hops"), plain, "{kind}: {:#018x}", kind.hash(0, b"zero hops"));
        assert_eq!(kind.hash(42, b"zero hops"), seeded, "{kind}: {:#018x}", kind.hash(42, b"zero hops"));
    }
}

const PINNED: [(HashKind, u64, u64); 5] = [
    (HashKind::Xxh3, 0x838e_d228_3b08_4da9, 0x4c39_2bd0_c110_57e3),
    (HashKind::Fnv1a, 0x6e04_49fa_df96_a258, 0x047a_89ac_a62f_1d72),
    (HashKind::Jenkins, 0x2d80_665c_9b80_7688, 0x2776_4528_782b_91f3),
    (HashKind::Sdbm, 0x781f_a0eb_57bf_7456, 0xebe5_5c45_24b2_33d6),
    (HashKind::Crc16, 0x6a3a_0e3b_48a0_ec21, 0x6a39_30e4_af43_0441),
];

#[test]
fn hash_names_parse_and_unknown_name_error_lists_valid_ones() {
    for kind in HashKind::ALL {
        assert_eq!(kind.to_string().parse(), Ok(kind));
    }
    let error = "md5".parse::<HashKind>().unwrap_err().to_string();
    assert_eq!(error, r#"no hash function is called "md5": use one of xxh3, fnv1a, jenkins, sdbm, crc16"#);
    assert_eq!("x".repeat(1000).parse::<HashKind>().unwrap_err().name.len(), UNKNOWN_NAME_CHARS_MAX);
}

/// The distance of the chi-square statistic from its expected value, in standard deviations.
fn unevenness(hashes: impl Iterator<Item = u64>, partitions: u32) -> f64 {
    let count = PartitionCount::new(partitions).unwrap();
    let mut filled = vec![0u32; partitions as usize];
    let mut total = 0u32;
    for hash in hashes {
        filled[partition_of(hash, count).get() as usize] += 1;
        total += 1;
    }
    let expected = f64::from(total) / f64::from(partitions);
    let chi_square: f64 = filled.iter().map(|n| (f64::from(*n) - expected).powi(2) / expected).sum();
    let freedom = f64::from(partitions - 1);
    (chi_square - freedom) / (2.0 * freedom).sqrt()
}

/// Keys that differ in their last characters, for which weak hashes fail.
fn likely_keys() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    const KEYS: u32 = 100_000;
    let keys = |key: fn(u32) -> String| (0..KEYS).map(|n| key(n).into_bytes()).collect();
    vec![
        ("counters", keys(|n| n.to_string())),
        ("padded counters", keys(|n| format!("{n:015}"))),
        ("paths", keys(|n| format!("/data/{}/job-{:04}/rank.{:03}/out.dat", n % 7, n / 100, n % 100))),
        ("big-endian integers", (0..KEYS).map(|n| u64::from(n).to_be_bytes().to_vec()).collect()),
        ("little-endian integers", (0..KEYS).map(|n| u64::from(n).to_le_bytes().to_vec()).collect()),
    ]
}

#[test]
fn top_bits_are_even_for_keys_with_different_last_characters() {
    for (name, keys) in likely_keys() {
        for kind in HashKind::ALL.into_iter().filter(|kind| *kind != HashKind::Crc16) {
            for seed in [0, 1, 0x0123_4567_89ab_cdef] {
                for partitions in [256, 1024, 16_384] {
                    let off = unevenness(keys.iter().map(|key| kind.hash(seed, key)), partitions);
                    assert!(off < 5.0, "{kind}, {name}, seed {seed}, {partitions} partitions: {off:.1}");
                }
            }
        }
    }
}

/// This is the reason for their finaliser.
#[test]
fn plain_fnv1a_and_sdbm_are_uneven_in_their_top_bits() {
    let (_, counters) = likely_keys().swap_remove(0);
    assert!(unevenness(counters.iter().map(|key| fnv1a(key)), 1024) > 100.0);
    assert!(unevenness(counters.iter().map(|key| sdbm(key)), 1024) > 100.0);
}

#[test]
fn finaliser_is_invertible() {
    // The inverse of its steps: each is a bijection of the 64-bit integers.
    fn undone(mut hash: u64) -> u64 {
        for inverse in [0x9cb4_b2f8_1293_37db_u64, 0x4f74_430c_22a5_4005] {
            hash = (hash ^ (hash >> 33)).wrapping_mul(inverse);
        }
        hash ^ (hash >> 33)
    }
    for hash in (0..10_000u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
        assert_eq!(undone(finalise(hash)), hash);
    }
}

proptest! {
    #[test]
    fn different_seeds_place_keys_differently(one: u64, other: u64) {
        prop_assume!(one != other);
        let count = PartitionCount::new(256).unwrap();
        for kind in HashKind::ALL.into_iter().filter(|kind| *kind != HashKind::Crc16) {
            let place = |seed, n: u32| partition_of(kind.hash(seed, n.to_string().as_bytes()), count);
            let same = (0..2000).filter(|n| place(one, *n) == place(other, *n)).count();
            // The expected number by chance is 8.
            prop_assert!(same < 40, "{}: {} of 2000 keys stayed", kind, same);
        }
    }

    #[test]
    fn crc16_partitions_are_the_slots_scaled(seed: u64, key in proptest::collection::vec(any::<u8>(), 0..64), bits in 0u32..=14) {
        let count = PartitionCount::new(1 << bits).unwrap();
        let by_slot = u32::from(key_slot(&key)) * count.get() / u32::from(SLOTS);
        prop_assert_eq!(partition_of(HashKind::Crc16.hash(seed, &key), count).get(), by_slot);
    }

    #[test]
    fn keys_of_one_hash_tag_have_equal_hashes(seed: u64, tag in "[a-z]{1,8}", before in "[a-z]{0,8}", after in "[a-z{}]{0,8}") {
        let key = format!("{before}{{{tag}}}{after}");
        prop_assert_eq!(HashKind::Crc16.hash(seed, key.as_bytes()), HashKind::Crc16.hash(seed, tag.as_bytes()));
    }
}
