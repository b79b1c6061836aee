//! The encoding of rows: one byte of format version, then the columns in order. Integers are little-endian, so that a transform of the server can
//! add to them; a text is its length in two bytes and its bytes; an optional column is a byte 0, or a byte 1 and the column.

use std::fmt;

/// The version of the encoding, the first byte of every row.
pub(crate) const VERSION: u8 = 1;

/// Why bytes are no row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowError {
    /// The bytes end within a column.
    Truncated,
    /// Bytes follow the last column.
    TooLong,
    /// The row has another version.
    Version(u8),
    /// The column has a value that its type does not have.
    Invalid,
}

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RowError::Truncated => f.write_str("the row is truncated"),
            RowError::TooLong => f.write_str("bytes follow the last column of the row"),
            RowError::Version(version) => write!(f, "the row has format version {version}"),
            RowError::Invalid => f.write_str("a column has an invalid value"),
        }
    }
}

/// A column, or a group of columns.
pub(crate) trait Column: Sized {
    /// Appends its bytes.
    fn put(&self, out: &mut Vec<u8>);
    /// Removes its bytes from the front of `rest`.
    fn parse(rest: &mut &[u8]) -> Result<Self, RowError>;
}

/// The bytes of a row.
pub(crate) fn encode(row: &impl Column) -> Vec<u8> {
    let mut out = vec![VERSION];
    row.put(&mut out);
    out
}

/// The row of these bytes, all of which belong to it.
pub(crate) fn decode<R: Column>(bytes: &[u8]) -> Result<R, RowError> {
    let mut rest = bytes;
    match u8::parse(&mut rest)? {
        VERSION => {}
        other => return Err(RowError::Version(other)),
    }
    let row = R::parse(&mut rest)?;
    if rest.is_empty() { Ok(row) } else { Err(RowError::TooLong) }
}

fn split<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], RowError> {
    let (front, behind) = rest.split_at_checked(length).ok_or(RowError::Truncated)?;
    *rest = behind;
    Ok(front)
}

macro_rules! integer_columns {
    ($($integer:ty),*) => {$(
        impl Column for $integer {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn parse(rest: &mut &[u8]) -> Result<Self, RowError> {
                let bytes = split(rest, size_of::<$integer>())?;
                Ok(<$integer>::from_le_bytes(bytes.try_into().map_err(|_| RowError::Truncated)?))
            }
        }
    )*};
}

integer_columns!(u8, u16, u32, u64, i64);

impl Column for String {
    fn put(&self, out: &mut Vec<u8>) {
        // The longest text of the schema has 500 characters.
        debug_assert!(self.len() <= usize::from(u16::MAX));
        (self.len() as u16).put(out);
        out.extend_from_slice(self.as_bytes());
    }

    fn parse(rest: &mut &[u8]) -> Result<Self, RowError> {
        let length = u16::parse(rest)?;
        let bytes = split(rest, usize::from(length))?;
        String::from_utf8(bytes.to_vec()).map_err(|_| RowError::Invalid)
    }
}

impl Column for bool {
    fn put(&self, out: &mut Vec<u8>) {
        u8::from(*self).put(out);
    }

    fn parse(rest: &mut &[u8]) -> Result<Self, RowError> {
        match u8::parse(rest)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(RowError::Invalid),
        }
    }
}

impl<C: Column> Column for Option<C> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(column) = self {
            column.put(out);
        }
    }

    fn parse(rest: &mut &[u8]) -> Result<Self, RowError> {
        bool::parse(rest)?.then(|| C::parse(rest)).transpose()
    }
}

impl<C: Column, const COUNT: usize> Column for [C; COUNT] {
    fn put(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|column| column.put(out));
    }

    fn parse(rest: &mut &[u8]) -> Result<Self, RowError> {
        let columns: Result<Vec<C>, RowError> = (0..COUNT).map(|_| C::parse(rest)).collect();
        columns?.try_into().map_err(|_| RowError::Invalid)
    }
}

/// Declares a struct whose fields are encoded in their order.
macro_rules! columns {
    ($(#[$about:meta])* $name:ident { $($(#[$what:meta])* $field:ident: $column:ty,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub(crate) struct $name {
            $($(#[$what])* pub(crate) $field: $column,)*
        }

        impl $crate::codec::Column for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $($crate::codec::Column::put(&self.$field, out);)*
            }

            fn parse(rest: &mut &[u8]) -> Result<Self, $crate::codec::RowError> {
                Ok(Self { $($field: $crate::codec::Column::parse(rest)?,)* })
            }
        }
    };
}

pub(crate) use columns;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    columns! {
        /// One column of each type.
        Sample { number: u8, count: u16, key: u32, time: u64, money: i64, text: String, maybe: Option<u64>, pair: [String; 2], is_set: bool, }
    }

    prop_compose! {
        fn sample()(
            numbers in any::<(u8, u16, u32, u64, i64)>(),
            text in ".{0,60}",
            maybe in any::<Option<u64>>(),
            pair in ("[a-z]{0,9}", "[a-z]{0,9}"),
            is_set in any::<bool>(),
        ) -> Sample {
            let (number, count, key, time, money) = numbers;
            Sample { number, count, key, time, money, text, maybe, pair: [pair.0, pair.1], is_set }
        }
    }

    proptest! {
        #[test]
        fn decoded_row_equals_encoded_one(row in sample()) {
            prop_assert_eq!(decode::<Sample>(&encode(&row)), Ok(row));
        }

        #[test]
        fn every_truncated_row_is_refused(row in sample(), part in 0.0..1.0) {
            let bytes = encode(&row);
            let cut = (bytes.len() as f64 * part) as usize;
            prop_assert_eq!(decode::<Sample>(&bytes[..cut]), Err(RowError::Truncated));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(row) = decode::<Sample>(&bytes) {
                prop_assert_eq!(encode(&row), bytes);
            }
        }
    }

    #[test]
    fn wrong_version_and_surplus_bytes_are_refused() {
        let mut bytes = encode(&7_u32);
        bytes.push(0);
        assert_eq!(decode::<u32>(&bytes), Err(RowError::TooLong));
        bytes[0] = 9;
        assert_eq!(decode::<u32>(&bytes), Err(RowError::Version(9)));
        assert_eq!(decode::<bool>(&[VERSION, 2]), Err(RowError::Invalid));
        assert_eq!(decode::<String>(&[VERSION, 1, 0, 0xff]), Err(RowError::Invalid));
    }
}
