//! What the parts that handle a request find out about it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::GatewayMetrics;

/// What is known of a request while it is handled. It is an extension of the request, as s3s hands it on.
#[derive(Debug)]
pub(crate) struct RequestFacts {
    pub(crate) metrics: Arc<GatewayMetrics>,
    operation: OnceLock<String>,
    received_bytes: AtomicU64,
}

impl RequestFacts {
    pub(crate) fn new(metrics: Arc<GatewayMetrics>) -> Self {
        Self { metrics, operation: OnceLock::new(), received_bytes: AtomicU64::new(0) }
    }

    /// Names the operation, once. `name` is that of s3s, as `PutObject`.
    pub(crate) fn name_operation(&self, name: &str) {
        self.operation.get_or_init(|| in_metrics(name));
    }

    /// The operation as metrics have it, as `put_object`.
    pub(crate) fn operation(&self) -> Option<&str> {
        self.operation.get().map(String::as_str)
    }

    pub(crate) fn received(&self, bytes: u64) {
        self.received_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.metrics.received(bytes);
    }

    pub(crate) fn received_bytes(&self) -> u64 {
        self.received_bytes.load(Ordering::Relaxed)
    }
}

fn in_metrics(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operation_has_words_and_keeps_its_first_name() {
        let facts = RequestFacts::new(Arc::default());
        assert_eq!(facts.operation(), None);
        facts.name_operation("ListObjectsV2");
        facts.name_operation("PutObject");
        assert_eq!(facts.operation(), Some("list_objects_v2"));
        assert_eq!(in_metrics("preflight"), "preflight");
    }
}
