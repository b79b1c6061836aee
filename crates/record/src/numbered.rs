//! Enumerations whose numbers are part of the protocol.

/// Declares an enumeration with the number of each variant on the wire and a text for people.
#[macro_export]
macro_rules! numbered {
    ($(#[$meta:meta])* $name:ident: $int:ty { $($(#[$doc:meta])* $variant:ident = $number:literal, $text:literal;)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr($int)]
        pub enum $name {
            $($(#[$doc])* $variant = $number,)*
        }

        impl $name {
            /// All variants, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The number on the wire. It never changes, and the number of a removed variant is never reused.
            #[must_use]
            pub const fn number(self) -> $int {
                self as $int
            }

            /// The variant with this number, if this program knows it.
            #[must_use]
            pub const fn from_number(number: $int) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The text for people.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(self.text())
            }
        }
    };
}
