//! Conditions on the object that a procedure reads or replaces.

use crate::error::ObjectError;
use crate::records::ObjectRecord;

/// The entity tags that a condition names, without quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ETagMatch {
    /// Any object.
    Any,
    /// An object with one of these tags.
    OneOf(Vec<String>),
}

impl ETagMatch {
    /// Whether the object is among them.
    #[must_use]
    pub fn contains(&self, object: &ObjectRecord) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(tags) => tags.iter().any(|tag| *tag == object.etag.to_string()),
        }
    }
}

/// Conditions on the object that is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// The object exists, with one of these tags.
    pub if_match: Option<ETagMatch>,
    /// No object exists with one of these tags.
    pub if_none_match: Option<ETagMatch>,
}

impl Conditions {
    /// Checks the conditions against the object that stands.
    ///
    /// # Errors
    /// [`ObjectError::NoSuchObject`] if `if_match` finds no object, else [`ObjectError::PreconditionFailed`].
    pub fn check(&self, object: Option<&ObjectRecord>) -> Result<(), ObjectError> {
        match (&self.if_match, object) {
            (Some(_), None) => return Err(ObjectError::NoSuchObject),
            (Some(requested), Some(object)) if !requested.contains(object) => {
                return Err(ObjectError::PreconditionFailed);
            }
            _ => {}
        }
        match (&self.if_none_match, object) {
            (Some(refused), Some(object)) if refused.contains(object) => Err(ObjectError::PreconditionFailed),
            _ => Ok(()),
        }
    }
}
