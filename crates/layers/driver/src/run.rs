//! The loop that drives a procedure over a keyspace.

use std::future::Future;

use zerohop_layer_procedure::{Effect, Event, LayerError, Procedure, Step};

use crate::error::StoreError;
use crate::store::RecordStore;

/// What a layer has of its own.
pub trait Layer {
    /// Its error.
    type Error: LayerError;
    /// The effect that only this layer has.
    type Own;

    /// Its error for a store that failed.
    fn failed(error: StoreError) -> Self::Error;

    /// Carries out an effect of the layer.
    fn carry_out(store: &RecordStore, own: Self::Own) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// Drives a procedure to its end.
///
/// # Errors
/// Those of the procedure.
pub async fn run<L: Layer, P: Procedure<L::Error, L::Own>>(
    store: &RecordStore,
    mut procedure: P,
) -> Result<P::Output, L::Error> {
    let mut event = Event::Start;
    loop {
        let effect = match procedure.step(store.now(), event) {
            Step::Done(result) => return result,
            Step::Effect(effect) => effect,
        };
        let outcome = match effect {
            Effect::Read(keys) => store.read(&keys).await.map(Event::Values),
            Effect::Transact { conditions, writes, additions } => {
                let committed = store.transact(&conditions, &writes, &additions).await;
                committed.map(|holds| if holds { Event::Committed } else { Event::Conflict })
            }
            Effect::Scan { from, to, limit, bytes } => {
                let page = store.scan(from, to, limit, bytes).await;
                page.map(|(entries, next)| Event::Page { entries, next })
            }
            Effect::Own(own) => L::carry_out(store, own).await.map(|()| Event::OwnDone),
        };
        event = outcome.unwrap_or_else(|error| Event::Failed(L::failed(error)));
    }
}
