//! What the gateways of one run have done, and what they have found.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zerohop_objects::{ETag, SetId};

use crate::register::{Action, Call, OrderSearch, TokenContents, check};

/// The name of the attribute that names the write of an object.
pub(crate) const TOKEN: &str = "token";

/// Calls that are shown of a history without an order.
const SHOWN_MAX: usize = 60;

/// A multipart upload that gateways know.
#[derive(Clone, Debug)]
pub(crate) struct OpenUpload {
    pub(crate) target: (String, Vec<u8>),
    pub(crate) id: SetId,
    pub(crate) token: u64,
    /// The contents of each part.
    pub(crate) parts: BTreeMap<u16, u64>,
    /// A gateway completes it.
    pub(crate) is_completing: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ObjectHistory {
    moments: u64,
    tokens: u64,
    /// The calls on each object of the bucket without versions.
    calls: BTreeMap<Vec<u8>, Vec<Call>>,
    /// The contents of each token.
    tokens_of: TokenContents,
    /// The bytes of contents.
    bytes: Vec<Vec<u8>>,
    pub(crate) uploads: Vec<OpenUpload>,
    pub(crate) wrong: Vec<String>,
    /// How many operations of each kind ended well.
    pub(crate) successes: BTreeMap<&'static str, u64>,
    pub(crate) undecided: u64,
    /// A gateway removes a bucket, or died during that.
    pub(crate) is_removing_bucket: bool,
}

/// The history, as all gateways of a run share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedHistory(Arc<Mutex<ObjectHistory>>);

impl SharedHistory {
    pub(crate) fn lock(&self) -> MutexGuard<'_, ObjectHistory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ObjectHistory {
    /// The next moment.
    pub(crate) fn moment(&mut self) -> u64 {
        self.moments += 1;
        self.moments
    }

    pub(crate) fn new_token(&mut self) -> u64 {
        self.tokens += 1;
        self.tokens
    }

    /// New contents with these bytes.
    pub(crate) fn new_contents(&mut self, bytes: Vec<u8>) -> u64 {
        self.bytes.push(bytes);
        self.bytes.len() as u64 - 1
    }

    pub(crate) fn bytes(&self, contents: u64) -> &[u8] {
        self.bytes.get(contents as usize).map_or(&[], Vec::as_slice)
    }

    /// A call begins that may take effect from now on. Its place is for [`ends`](Self::ends).
    pub(crate) fn begins(&mut self, client: usize, name: &[u8], action: Action) -> usize {
        let begin = self.moment();
        let calls = self.calls.entry(name.to_vec()).or_default();
        calls.push(Call { client, begin, end: None, action });
        calls.len() - 1
    }

    /// A call has ended as this action; without one it had no effect, and has found nothing out.
    pub(crate) fn ends(&mut self, name: &[u8], place: usize, action: Option<Action>) {
        let end = self.moment();
        let Some(call) = self.calls.get_mut(name).and_then(|calls| calls.get_mut(place)) else { return };
        // What any state allows needs no place in the order.
        call.action = action.unwrap_or(Action::Refused(crate::register::Requires::Contents(u64::MAX)));
        call.end = Some(end);
    }

    /// Something was found between `begin` and now.
    pub(crate) fn found(&mut self, client: usize, name: &[u8], begin: u64, action: Action) {
        let end = Some(self.moment());
        self.calls.entry(name.to_vec()).or_default().push(Call { client, begin, end, action });
    }

    /// The objects of a token have these contents.
    pub(crate) fn token_has(&mut self, token: u64, contents: u64) {
        let known = *self.tokens_of.entry(token).or_insert(contents);
        if known != contents {
            self.wrong.push(format!("write {token} has contents {known}, and is found with {contents}"));
        }
    }

    pub(crate) fn succeeded(&mut self, kind: &'static str) {
        *self.successes.entry(kind).or_default() += 1;
    }

    /// Searches an order of the calls on each object.
    pub(crate) fn check(&mut self) {
        for (name, calls) in &self.calls {
            let seen: BTreeSet<u64> = calls
                .iter()
                .filter_map(|call| match call.action {
                    Action::FindToken(token) => Some(token),
                    _ => None,
                })
                .collect();
            // A read without an answer says nothing.
            let relevant = calls.iter().filter(|call| {
                call.end.is_some() || matches!(call.action, Action::Write { .. } | Action::Remove { .. })
            });
            let relevant: Vec<Call> = relevant.cloned().collect();
            match check(&relevant, &self.tokens_of) {
                OrderSearch::Linearizable => {}
                OrderSearch::Undecided => self.undecided += 1,
                OrderSearch::Not => {
                    let shown: Vec<String> = relevant
                        .iter()
                        .take(SHOWN_MAX)
                        .map(|call| {
                            format!("c{} {}..{:?} {:?}", call.client, call.begin, call.end, call.action)
                        })
                        .collect();
                    self.wrong.push(format!(
                        "the calls on {:?} have no order ({} tokens were found): {}",
                        String::from_utf8_lossy(name),
                        seen.len(),
                        shown.join("; ")
                    ));
                }
            }
        }
    }
}

/// The entity tag of contents.
pub(crate) fn etag(contents: u64) -> ETag {
    let mut md5 = [0; 16];
    md5[8..].copy_from_slice(&contents.to_be_bytes());
    ETag { md5, parts: 0 }
}

/// The contents of an entity tag.
pub(crate) fn contents_of(etag: &ETag) -> u64 {
    etag.md5[8..].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}
