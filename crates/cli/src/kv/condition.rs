//! The condition of a write on its record.

use clap::Args;
use zerohop_client::{Condition, Timestamp};

#[derive(Args, Clone, Copy, Debug)]
#[group(multiple = false)]
pub(crate) struct ConditionArguments {
    /// Writes only if the record does not exist.
    #[arg(long)]
    if_absent: bool,
    /// Writes only if the record exists.
    #[arg(long)]
    if_present: bool,
    /// Writes only if the record has this version, as `lookup --json` prints it.
    #[arg(long, value_name = "VERSION", value_parser = version)]
    if_version: Option<Timestamp>,
}

impl ConditionArguments {
    /// Whether there is a condition.
    pub(crate) fn is_given(self) -> bool {
        Condition::from(self) != Condition::Always
    }
}

impl From<ConditionArguments> for Condition {
    fn from(given: ConditionArguments) -> Condition {
        match given {
            ConditionArguments { if_absent: true, .. } => Condition::IfAbsent,
            ConditionArguments { if_present: true, .. } => Condition::IfPresent,
            ConditionArguments { if_version: Some(version), .. } => Condition::IfVersion(version),
            _ => Condition::Always,
        }
    }
}

/// Parses a version as it is printed: milliseconds, a dot, a counter; or as the number that it is in Python. For clap.
pub(crate) fn version(text: &str) -> Result<Timestamp, String> {
    let parts =
        text.split_once('.').and_then(|(ms, counter)| Some((ms.parse().ok()?, counter.parse().ok()?)));
    match parts {
        Some((ms, counter)) if ms <= Timestamp::MILLIS_MAX => Ok(Timestamp::new(ms, counter)),
        // Not milliseconds without their counter, which are smaller.
        None if let Some(number) = text.parse().ok().filter(|number| *number > Timestamp::MILLIS_MAX) => {
            Ok(Timestamp(number))
        }
        _ => Err("write a version as it is printed, as in 1763770000123.0".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_they_are_printed() {
        for given in [Timestamp::ZERO, Timestamp::new(1_763_770_000_123, 65_535), Timestamp::MAX] {
            assert_eq!(version(&given.to_string()), Ok(given));
        }
        let number = Timestamp::new(1_763_770_000_123, 7);
        assert_eq!(version(&number.0.to_string()), Ok(number));
        for bad in [
            "",
            "1",
            "1763770000123",
            "18446744073709551616",
            "1.",
            ".1",
            "1.65536",
            "-1.0",
            "1.0.0",
            "281474976710656.0",
        ] {
            assert!(version(bad).is_err(), "{bad}");
        }
    }
}
