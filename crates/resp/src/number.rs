//! Decimal numbers as Redis reads and writes them.

/// The decimal digits of a number, without allocation.
pub(crate) struct Digits {
    bytes: [u8; 20],
    from: u8,
}

impl Digits {
    #[inline]
    pub(crate) fn of(number: i64) -> Digits {
        let mut digits = Digits { bytes: [0; 20], from: 20 };
        let mut rest = number.unsigned_abs();
        while rest >= 100 {
            let two = (rest % 100) as u8;
            rest /= 100;
            digits.push(b'0' + two % 10);
            digits.push(b'0' + two / 10);
        }
        loop {
            digits.push(b'0' + (rest % 10) as u8);
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if number < 0 {
            digits.push(b'-');
        }
        digits
    }

    fn push(&mut self, digit: u8) {
        self.from -= 1;
        self.bytes[usize::from(self.from)] = digit;
    }

    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[usize::from(self.from)..]
    }
}

/// A 64-bit integer as Redis accepts it: no sign but `-`, no leading zero, no space, nothing else.
#[inline]
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut number: u64 = 0;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        // At most 19 digits: below 2^64.
        number = number * 10 + u64::from(digit - b'0');
    }
    if negative { 0i64.checked_sub_unsigned(number) } else { i64::try_from(number).ok() }
}

/// Digits after the point in a sum of fractions, as in Redis.
const FRACTION_DIGITS: u32 = 17;

/// With more digits a sum is computed in floating point: 20 digits before the point and 17 after it
/// are below 2^127.
const EXACT_DIGITS: usize = 20;

/// The sum of two decimal numbers as `INCRBYFLOAT` writes it: at most 17 digits after the point, no
/// trailing zeros, no exponent. `None` if one of them is no number; `Some(None)` if the sum is
/// infinite or no number.
///
/// Redis adds in the long double of its machine. Here numbers of ordinary length are added exactly,
/// and others in double precision.
pub(crate) fn float_sum(a: &[u8], b: &[u8]) -> Option<Option<String>> {
    let (a_float, b_float) = (float(a)?, float(b)?);
    if let (Some(a), Some(b)) = (fixed(a), fixed(b)) {
        return Some(Some(fixed_text(a + b)));
    }
    let sum = a_float + b_float;
    Some(sum.is_finite().then(|| float_text(sum)))
}

/// A decimal number as Redis accepts it: no space around it, not NaN. `inf` is a number; a number
/// that overflows to infinity is not.
fn float(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let number: f64 = text.parse().ok()?;
    let is_too_great = number.is_infinite() && text.bytes().any(|byte| byte.is_ascii_digit());
    (!number.is_nan() && !is_too_great).then_some(number)
}

/// A decimal number in units of 10^-17; `None` if it does not fit, or has digits below that.
fn fixed(text: &[u8]) -> Option<i128> {
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let (text, exponent) = match text.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(at) => (&text[..at], std::str::from_utf8(&text[at + 1..]).ok()?.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let point = text.iter().position(|&byte| byte == b'.').unwrap_or(text.len());
    let (whole, fraction) = (&text[..point], text.get(point + 1..).unwrap_or(&[]));
    if whole.len() + fraction.len() > EXACT_DIGITS + FRACTION_DIGITS as usize {
        return None;
    }
    let mut number: i128 = 0;
    for &digit in whole.iter().chain(fraction) {
        if !digit.is_ascii_digit() {
            return None;
        }
        number = number * 10 + i128::from(digit - b'0');
    }
    let shift = exponent.checked_add(FRACTION_DIGITS as i32)?.checked_sub(fraction.len() as i32)?;
    let number = number.checked_mul(10i128.checked_pow(u32::try_from(shift).ok()?)?)?;
    let limit = 10i128.pow(EXACT_DIGITS as u32 + FRACTION_DIGITS);
    (number < limit).then_some(if negative { -number } else { number })
}

fn fixed_text(number: i128) -> String {
    let one = 10u128.pow(FRACTION_DIGITS);
    let sign = if number < 0 { "-" } else { "" };
    let (whole, fraction) = (number.unsigned_abs() / one, number.unsigned_abs() % one);
    let fraction = format!("{fraction:017}");
    match fraction.trim_end_matches('0') {
        "" => format!("{sign}{whole}"),
        fraction => format!("{sign}{whole}.{fraction}"),
    }
}

fn float_text(number: f64) -> String {
    let text = format!("{number:.17}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_parse_as_in_redis() {
        for good in ["0", "1", "-1", "9223372036854775807", "-9223372036854775808"] {
            assert_eq!(integer(good.as_bytes()), good.parse().ok(), "{good}");
        }
        let bad =
            ["", "-", "-0", "+1", "01", " 1", "1 ", "1.0", "9223372036854775808", "-9223372036854775809"];
        for bad in bad {
            assert_eq!(integer(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn fractions_have_no_trailing_zeros_and_no_exponent() {
        let sum = |a: &str, b: &str| float_sum(a.as_bytes(), b.as_bytes());
        let cases = [
            ("10.50", "0.1", "10.6"),
            ("10.6", "-5", "5.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("0.1", "0.2", "0.3"),
            ("-0.1", "0.1", "0"),
            ("-1.5", "0", "-1.5"),
            (".5", "3.", "3.5"),
            ("99999999999999999999", "1", "100000000000000000000"),
            ("1e20", "1e20", "200000000000000000000"),
            ("1e3", "0.2", "1000.2"),
            ("25e-1", "1E+1", "12.5"),
            ("0.12345678901234567", "0", "0.12345678901234567"),
            ("1e-400", "0", "0"),
        ];
        for (a, b, text) in cases {
            assert_eq!(sum(a, b), Some(Some(text.to_owned())), "{a} {b}");
        }
        assert_eq!(sum("inf", "1"), Some(None));
        assert_eq!(sum("1e308", "1e308"), Some(None));
        for bad in ["", " 1", "1 ", "nan", "abc", "1,5", ".", "-", "1..2", "+-1", "1e999"] {
            assert_eq!(sum(bad, "1"), None, "{bad}");
            assert_eq!(sum("1", bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn digits_read_back(number: i64) {
            let digits = Digits::of(number);
            let text = number.to_string();
            prop_assert_eq!(digits.as_bytes(), text.as_bytes());
            prop_assert_eq!(integer(digits.as_bytes()), Some(number));
        }

        #[test]
        fn parser_accepts_only_canonical_integers(text in "[-0-9]{0,22}") {
            if let Some(number) = integer(text.as_bytes()) {
                prop_assert_eq!(number.to_string(), text);
            } else if let Ok(number) = text.parse::<i64>() {
                prop_assert_ne!(number.to_string(), text);
            }
        }
    }
}
