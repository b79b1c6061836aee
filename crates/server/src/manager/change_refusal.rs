//! Refusals of changes of the map.

use zerohop_placement::MapError;
use zerohop_wire::admin::{AdminAnswer, REFUSED_DECIDED, REFUSED_FAILED, REFUSED_SETTING};

/// A refusal of a change.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ChangeRefusal {
    pub(super) code: &'static str,
    pub(super) reason: String,
}

impl ChangeRefusal {
    /// The control group's refusal.
    pub(super) fn decided(reason: &str) -> ChangeRefusal {
        refusal(REFUSED_DECIDED, reason)
    }

    /// A failure of the node itself.
    pub(super) fn failed(reason: String) -> ChangeRefusal {
        refusal(REFUSED_FAILED, reason)
    }

    pub(super) fn into_answer(self) -> AdminAnswer {
        AdminAnswer::refused(self.code, self.reason)
    }
}

impl From<MapError> for ChangeRefusal {
    fn from(error: MapError) -> Self {
        setting(error)
    }
}

pub(super) fn setting(error: impl std::fmt::Display) -> ChangeRefusal {
    refusal(REFUSED_SETTING, error.to_string())
}

pub(super) fn refusal(code: &'static str, reason: impl Into<String>) -> ChangeRefusal {
    ChangeRefusal { code, reason: reason.into() }
}
