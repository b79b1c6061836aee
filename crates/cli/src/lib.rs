//! The `zerohop` library.
