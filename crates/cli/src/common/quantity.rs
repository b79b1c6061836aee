//! Parsers and printers of durations and sizes.

use std::time::Duration;

/// The longest time that an option accepts: 100 years.
const DAYS_MAX: u64 = 36_500;

const DAY_MS: u64 = 86_400_000;

/// `10s`, `500ms`, `2m`, `1h`, `7d`; a bare number is seconds. For clap.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, u64); 6] =
        [("", 1000), ("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", DAY_MS)];
    match number_with_unit(text, &UNITS) {
        Quantity::Number(ms) if ms <= DAYS_MAX * DAY_MS => Ok(Duration::from_millis(ms)),
        Quantity::Number(_) | Quantity::TooLarge => {
            Err(format!("it is too long: the longest time allowed is {DAYS_MAX}d"))
        }
        Quantity::Malformed if is_negative(text) => {
            Err("it is below 0: write a time as in 10s, 500ms, 2m, 1h, 7d".to_owned())
        }
        Quantity::Malformed => Err(
            "write a whole number and a unit, as in 10s, 500ms, 2m, 1h, 7d; a number without a unit is in seconds"
                .to_owned(),
        ),
    }
}

/// The same, without 0, which gives an operation no time. For clap.
pub(crate) fn duration_above_zero(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => {
            Err("0 leaves no time for anything: give at least 1ms, as in 500ms, 10s, 2m".to_owned())
        }
        time => Ok(time),
    }
}

/// The time to live of a record, longer than zero; parsed as a duration. For clap.
pub(crate) fn time_to_live(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => {
            Err("a record that lives for no time is no record: give at least 1ms, or remove the record"
                .to_owned())
        }
        time => Ok(time),
    }
}

/// How long a token is valid; parsed as a duration. For clap.
pub(crate) fn token_time(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => {
            Err("a token that is valid for no time permits nothing: give a time above 0, as in 12h or 30d"
                .to_owned())
        }
        time => Ok(time),
    }
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
    match number_with_unit(text, &UNITS) {
        Quantity::Number(bytes) => Ok(bytes),
        Quantity::TooLarge => Err(format!("it is too large: {} bytes are the most", u64::MAX)),
        Quantity::Malformed if is_negative(text) => {
            Err("it is below 0: write a size as in 4096, 64KiB, 1MiB".to_owned())
        }
        Quantity::Malformed => Err("write a number and a unit, as in 4096, 64KiB, 1MiB".to_owned()),
    }
}

/// Bytes, for settings that are 32 bits on the wire.
pub(crate) fn bytes_u32(text: &str) -> Result<u32, String> {
    u32::try_from(bytes(text)?).map_err(|_| "it is too large: less than 4 GiB is allowed".to_owned())
}

/// A number of things, 1 or more. For clap.
pub(crate) fn count_above_zero(text: &str) -> Result<usize, String> {
    match usize::try_from(parse_whole(text)?) {
        Ok(0) => Err("at least 1 is needed; leave the option out for the default".to_owned()),
        Ok(count) => Ok(count),
        Err(error) => Err(error.to_string()),
    }
}

/// A whole number, 0 or more. For clap.
pub(crate) fn parse_whole(text: &str) -> Result<u64, String> {
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

/// Makes an argument that begins with a dash the value of the option before it, if it is a number
/// or the option wants a time or a size. The option's parser then reports the error; clap would
/// take it for an option, and its advice would be wrong.
pub(crate) fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|arg| {
        let is_for_value = !arg.is_positional() && arg.get_action().takes_values();
        if !is_for_value || arg.is_allow_hyphen_values_set() {
            return arg;
        }
        let names = arg.get_value_names().unwrap_or_default();
        let has_unit = names.iter().any(|name| name == "TIME" || name == "BYTES");
        if has_unit { arg.allow_hyphen_values(true) } else { arg.allow_negative_numbers(true) }
    });
    command.mut_subcommands(with_negative_numbers)
}

/// Whether the text begins with a negative number.
fn is_negative(text: &str) -> bool {
    text.strip_prefix('-').is_some_and(|rest| rest.starts_with(|one: char| one.is_ascii_digit()))
}

/// What a text says of a number with a unit.
enum Quantity {
    Number(u64),
    /// A number that 64 bits cannot represent in the smallest unit.
    TooLarge,
    Malformed,
}

fn number_with_unit(text: &str, units: &[(&str, u64)]) -> Quantity {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) else { return Quantity::Malformed };
    if number.is_empty() {
        return Quantity::Malformed;
    }
    // Only a number beyond 64 bits is not parsed: it consists of digits.
    let number = number.parse::<u64>().ok().and_then(|number| number.checked_mul(*factor));
    number.map_or(Quantity::TooLarge, Quantity::Number)
}

/// A size as text: `999 B`, `1.5 KB`, `12.3 MB` (powers of 1000, as disks are sold).
pub(crate) fn format_bytes(bytes: u64) -> String {
    const STEPS: [(u64, &str); 3] = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1000, "KB")];
    match STEPS.iter().find(|(step, _)| bytes >= *step) {
        Some((step, unit)) => format!("{:.1} {unit}", bytes as f64 / *step as f64),
        None => format!("{bytes} B"),
    }
}

/// A duration as text, to about two places: `500 ms`, `9.8 s`, `2 min 5 s`, `3 h 20 min`, `7 d 1
/// h`.
pub(crate) fn format_time(time: Duration) -> String {
    let (ms, seconds) = (time.as_millis(), time.as_secs());
    let two = |unit: u64, name: &str, part: u64, part_name: &str| match seconds % unit / part {
        0 => format!("{} {name}", seconds / unit),
        rest => format!("{} {name} {rest} {part_name}", seconds / unit),
    };
    match seconds {
        0 => format!("{ms} ms"),
        1..120 if ms % 1000 < 100 => format!("{seconds} s"),
        1..120 => format!("{seconds}.{} s", ms % 1000 / 100),
        120..7200 => two(60, "min", 1, "s"),
        7200..172_800 => two(3600, "h", 60, "min"),
        _ => two(86_400, "d", 3600, "h"),
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
        assert_eq!((parse_whole("0"), parse_whole("18446744073709551615")), (Ok(0), Ok(u64::MAX)));
        for (bad, part) in
            [("-1", "below 0"), ("18446744073709551616", "too large"), ("-", "whole"), ("1K", "whole")]
        {
            assert!(parse_whole(bad).is_err_and(|why| why.contains(part)), "{bad}");
        }
    }

    #[test]
    fn zero_ttl_and_negative_numbers_are_refused_with_reason() {
        assert_eq!(time_to_live("1ms"), Ok(Duration::from_millis(1)));
        assert!(["0", "0s", "0d"].iter().all(|text| time_to_live(text).unwrap_err().contains("no time")));
        assert!(["-1", "-1s"].iter().all(|text| time_to_live(text).unwrap_err().contains("below 0")));
        assert!(bytes("-4KiB").unwrap_err().contains("below 0"));
        assert!(duration("soon").unwrap_err().contains("a number without a unit is in seconds"));
        assert_eq!(duration_above_zero("1ms"), Ok(Duration::from_millis(1)));
        assert!(["0", "0ms", "0d"].iter().all(|text| duration_above_zero(text).unwrap_err().contains("1ms")));
    }

    #[test]
    fn too_large_quantity_is_refused_with_the_maximum() {
        let century = Duration::from_secs(36_500 * 86_400);
        for read in [duration, duration_above_zero, time_to_live, token_time] {
            assert_eq!(read("36500d"), Ok(century));
            for long in [
                "36501d",
                "3153600000001ms",
                "999999999999d",
                "99999999999999999999d",
                "99999999999999999999",
            ] {
                assert_eq!(
                    read(long),
                    Err("it is too long: the longest time allowed is 36500d".to_owned()),
                    "{long}"
                );
            }
        }
        for large in ["18446744073709551616", "18446744073709551615KiB"] {
            assert_eq!(
                bytes(large),
                Err("it is too large: 18446744073709551615 bytes are the most".to_owned())
            );
        }
    }

    #[test]
    fn times_are_shown_short() {
        let of = |ms| format_time(Duration::from_millis(ms));
        assert_eq!([0, 500, 1000, 9_840, 119_999].map(of), ["0 ms", "500 ms", "1 s", "9.8 s", "119.9 s"]);
        assert_eq!([120_000, 125_000, 7_200_000].map(of), ["2 min", "2 min 5 s", "2 h"]);
        assert_eq!([12_000_000, 608_400_000].map(of), ["3 h 20 min", "7 d 1 h"]);
    }

    #[test]
    fn sizes_are_shown_short() {
        assert_eq!([0, 999, 1500, 12_345_678].map(format_bytes), ["0 B", "999 B", "1.5 KB", "12.3 MB"]);
    }
}
