//! The source of randomness of the process: ids and nonces come from the system.

use rustix::rand::{GetRandomFlags, getrandom};

/// Random bytes.
///
/// # Errors
/// In words, if the system provides none.
pub fn random_bytes<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    match getrandom(&mut bytes, GetRandomFlags::empty()) {
        Ok(given) if given == N => Ok(bytes),
        Ok(_) => Err("the system gave too few random bytes: try again".to_owned()),
        Err(errno) => Err(format!("the system gave no random bytes: {errno}")),
    }
}

/// A random number.
///
/// # Errors
/// As [`random_bytes`].
pub fn random_u64() -> Result<u64, String> {
    random_bytes().map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_differ() {
        assert_ne!(random_u64(), random_u64());
        assert_ne!(random_bytes::<16>(), random_bytes::<16>());
    }
}
