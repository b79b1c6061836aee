//! Network addresses: `host:port`.

use std::fmt;
use std::str::FromStr;

use crate::limits::ADDRESS_BYTES_MAX;

/// A TCP address as text: a name or IPv4 address, or an IPv6 address in brackets, a colon, and a port other than zero. Printable ASCII without
/// blanks, at most 255 bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(Box<str>);

impl Address {
    /// Checks the form; it does not resolve the name.
    pub fn new(text: &str) -> Result<Address, AddressError> {
        if text.len() > ADDRESS_BYTES_MAX {
            return Err(AddressError::TooLong { bytes: text.len() });
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(AddressError::Characters);
        }
        let Some((host, port)) = text.rsplit_once(':') else {
            return Err(AddressError::Port);
        };
        let digits_only = port.bytes().all(|byte| byte.is_ascii_digit());
        if !digits_only || port.parse::<u16>().map_or(true, |port| port == 0) {
            return Err(AddressError::Port);
        }
        let name = match host.strip_prefix('[') {
            Some(inside) => inside.strip_suffix(']').ok_or(AddressError::Host)?,
            None if host.contains(':') => return Err(AddressError::Host),
            None => host,
        };
        if name.is_empty() || name.contains(['[', ']']) {
            return Err(AddressError::Host);
        }
        Ok(Address(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        Address::new(text)
    }
}

/// The reason why an address is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressError {
    /// The address is too long.
    TooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// A blank, a control character, or a character that is not ASCII.
    Characters,
    /// No port, or not one from 1 to 65535.
    Port,
    /// No host, or an IPv6 address without brackets.
    Host,
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { bytes } => write!(f, "an address of {bytes} bytes: at most {ADDRESS_BYTES_MAX}"),
            Self::Characters => f.write_str("an address has a blank or a character beyond ASCII"),
            Self::Port => f.write_str("an address has no port from 1 to 65535"),
            Self::Host => f.write_str("an address has no host, or an IPv6 address without brackets"),
        }?;
        f.write_str(": write host:port, such as 127.0.0.1:7400 or [::1]:7400")
    }
}

impl std::error::Error for AddressError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_with_a_port_are_accepted() {
        for good in ["127.0.0.1:7400", "[::1]:7400", "node-17.cluster:65535", "localhost:1"] {
            assert_eq!(Address::new(good).unwrap().as_str(), good);
        }
    }

    #[test]
    fn invalid_addresses_are_refused_with_reason() {
        for (bad, why) in [
            ("", AddressError::Port),
            ("host", AddressError::Port),
            ("host:", AddressError::Port),
            ("host:0", AddressError::Port),
            ("host:+1", AddressError::Port),
            ("host:65536", AddressError::Port),
            (":7400", AddressError::Host),
            ("::1:7400", AddressError::Host),
            ("[::1:7400", AddressError::Host),
            ("[]:7400", AddressError::Host),
            ("a b:1", AddressError::Characters),
            ("a\n:1", AddressError::Characters),
            ("ü:1", AddressError::Characters),
        ] {
            assert_eq!(Address::new(bad), Err(why), "{bad:?}");
        }
        let long = format!("{}:1", "h".repeat(254));
        assert_eq!(Address::new(&long), Err(AddressError::TooLong { bytes: 256 }));
    }
}
