//! The names of buckets and objects, by the rules of S3.

use std::fmt;

/// The most bytes of an object's name.
const OBJECT_NAME_BYTES_MAX: usize = 1024;

/// Why a name is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// The name of a bucket breaks a rule of S3.
    Bucket,
    /// The name of an object is empty, too long, or has a zero byte.
    Object,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bucket => {
                "the name of a bucket has 3 to 63 characters: lower-case letters, digits, dots and hyphens, with a letter or digit at \
                 both ends and no two dots side by side"
            }
            Self::Object => "the name of an object has 1 to 1024 bytes of UTF-8, and no zero byte",
        })
    }
}

impl std::error::Error for NameError {}

/// Returns the name of a bucket.
///
/// # Errors
/// [`NameError::Bucket`].
pub fn bucket_name(text: &str) -> Result<String, NameError> {
    let is_end = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    let is_name = (3..=63).contains(&bytes.len())
        && bytes.iter().all(|byte| is_end(byte) || matches!(byte, b'.' | b'-'))
        && bytes.first().is_some_and(is_end)
        && bytes.last().is_some_and(is_end)
        && !text.contains("..");
    if is_name { Ok(text.to_owned()) } else { Err(NameError::Bucket) }
}

/// Returns the name of an object.
///
/// # Errors
/// [`NameError::Object`].
pub fn object_name(text: &str) -> Result<Vec<u8>, NameError> {
    let is_name = (1..=OBJECT_NAME_BYTES_MAX).contains(&text.len()) && !text.contains('\0');
    if is_name { Ok(text.as_bytes().to_vec()) } else { Err(NameError::Object) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rules_of_s3() {
        for name in ["abc", "a-b", "a.b.c", "1a2", &"x".repeat(63)] {
            assert_eq!(bucket_name(name).as_deref(), Ok(name));
        }
        for name in ["", "ab", "Abc", "a_b", "-ab", "ab-", ".ab", "a..b", "a/b", "größe", &"x".repeat(64)] {
            assert_eq!(bucket_name(name), Err(NameError::Bucket), "{name}");
        }
        assert_eq!(object_name("a/../b").as_deref(), Ok(&b"a/../b"[..]));
        for name in ["", "a\0b", &"x".repeat(1025)] {
            assert_eq!(object_name(name), Err(NameError::Object));
        }
    }
}
