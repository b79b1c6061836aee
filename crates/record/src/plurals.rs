//! Words that agree with a number, and times, for messages to people.

use std::fmt::{self, Display};

/// A number with its noun: `1 copy`, `2 copies`, `0 partitions`. The noun is the regular singular.
pub fn counted<N: Copy + Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    if count == N::from(1) {
        return format!("{count} {noun}");
    }
    match noun.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{count} {stem}ies"),
        _ if noun.ends_with(['s', 'x']) || noun.ends_with("ch") => format!("{count} {noun}es"),
        _ => format!("{count} {noun}s"),
    }
}

/// The first text for the number 1, and else the second, such as `is` and `are`.
pub fn by_number<N: PartialEq + From<u8>>(
    count: N,
    one: &'static str,
    several: &'static str,
) -> &'static str {
    if count == N::from(1) { one } else { several }
}

/// A time in seconds since 1970, shown as date and time of UTC: `2021-01-31 08:09:10 UTC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UtcTime(pub u64);

impl Display for UtcTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, second) = (self.0 / 86_400, self.0 % 86_400);
        // Counted from 1 March of the year 0, so that a leap day is the last of its year. The calendar repeats every 400 years.
        let shifted = days + 719_468;
        let (era, day) = (shifted / 146_097, shifted % 146_097);
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        let year = era * 400 + year + next;
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_and_verbs_agree_with_their_number() {
        assert_eq!([0_u32, 1, 2].map(|count| counted(count, "node")), ["0 nodes", "1 node", "2 nodes"]);
        assert_eq!([1_usize, 2].map(|count| counted(count, "copy")), ["1 copy", "2 copies"]);
        assert_eq!(
            (counted(3_u64, "key"), counted(2_u8, "process")),
            ("3 keys".into(), "2 processes".into())
        );
        assert_eq!(
            (counted(1.0, "trouble"), counted(2_u64, "batch")),
            ("1 trouble".into(), "2 batches".into())
        );
        assert_eq!([0_u64, 1, 2].map(|count| by_number(count, "is", "are")), ["are", "is", "are"]);
    }

    #[test]
    fn times_are_shown_as_dates_of_utc() {
        for (seconds, shown) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (951_868_800, "2000-03-01 00:00:00 UTC"),
            (1_609_459_199, "2020-12-31 23:59:59 UTC"),
            (1_609_459_200, "2021-01-01 00:00:00 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(UtcTime(seconds).to_string(), shown);
        }
    }
}
