//! Durations and sizes as people write them.

use std::time::Duration;

/// `10s`, `500ms`, `2m`, `1h`, `7d`; a bare number is seconds. For clap.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, u64); 6] =
        [("", 1000), ("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
    let ms =
        number_with_unit(text, &UNITS).ok_or("write a number and a unit, as in 10s, 500ms, 2m, 1h, 7d")?;
    Ok(Duration::from_millis(ms))
}

/// `4096`, `64K`, `1MiB`: a bare number is bytes, units are powers of 1024. For clap.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 9] = [
        ("", 1),
        ("B", 1),
        ("K", 1 << 10),
        ("KB", 1 << 10),
        ("KiB", 1 << 10),
        ("M", 1 << 20),
        ("MB", 1 << 20),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
    ];
    number_with_unit(text, &UNITS)
        .ok_or_else(|| "write a number and a unit, as in 4096, 64KiB, 1MiB".to_owned())
}

/// The same, for settings that travel in 32 bits.
pub(crate) fn bytes_u32(text: &str) -> Result<u32, String> {
    u32::try_from(bytes(text)?).map_err(|_| "that is more than 4 GiB".to_owned())
}

/// A whole number from 0 on. For clap.
pub(crate) fn whole(text: &str) -> Result<u64, String> {
    text.parse().map_err(|error: std::num::ParseIntError| match text.strip_prefix('-') {
        Some(rest) if rest.bytes().all(|byte| byte.is_ascii_digit()) && !rest.is_empty() => {
            "it is below 0: write a whole number from 0 on".to_owned()
        }
        _ if *error.kind() == std::num::IntErrorKind::PosOverflow => {
            format!("it is too large: {} is the most", u64::MAX)
        }
        _ => "write a whole number from 0 on".to_owned(),
    })
}

/// What begins with a dash and is a number is the value of the option before it, which says what is wrong with it: clap takes it for
/// an option else, and advises what does not help.
pub(crate) fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|arg| {
        let is_for_value = !arg.is_positional() && arg.get_action().takes_values();
        if is_for_value && !arg.is_allow_hyphen_values_set() { arg.allow_negative_numbers(true) } else { arg }
    });
    command.mut_subcommands(with_negative_numbers)
}

fn number_with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

/// Bytes for people: `999 B`, `1.5 KB`, `12.3 MB` (powers of 1000, as disks are sold).
pub(crate) fn shown_bytes(bytes: u64) -> String {
    const STEPS: [(u64, &str); 3] = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1000, "KB")];
    match STEPS.iter().find(|(step, _)| bytes >= *step) {
        Some((step, unit)) => format!("{:.1} {unit}", bytes as f64 / *step as f64),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_are_read_and_nonsense_is_not() {
        assert_eq!(duration("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("3"), Ok(Duration::from_secs(3)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(bytes("64KiB"), Ok(65_536));
        assert_eq!(bytes_u32("1M"), Ok(1 << 20));
        for bad in ["", "s", "-1s", "1.5s", "1 s", "10y", "99999999999999999999s", "18446744073709551615d"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
        assert!(bytes("1TB").is_err() && bytes_u32("4GiB").is_err());
        assert_eq!((whole("0"), whole("18446744073709551615")), (Ok(0), Ok(u64::MAX)));
        for (bad, part) in
            [("-1", "below 0"), ("18446744073709551616", "too large"), ("-", "whole"), ("1K", "whole")]
        {
            assert!(whole(bad).is_err_and(|why| why.contains(part)), "{bad}");
        }
    }

    #[test]
    fn sizes_are_shown_short() {
        assert_eq!([0, 999, 1500, 12_345_678].map(shown_bytes), ["0 B", "999 B", "1.5 KB", "12.3 MB"]);
    }
}
