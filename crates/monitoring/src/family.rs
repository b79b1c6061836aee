//! Metrics as text for Prometheus, in the OpenMetrics format: families with a value for each set of labels.

use std::collections::HashMap;
use std::fmt;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::{Registry, Unit};

pub use prometheus_client::collector::Collector as MetricsCollector;
pub use prometheus_client::encoding::DescriptorEncoder as MetricsEncoder;

/// The content type of the text.
pub const METRICS_CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Names and values of labels.
pub type Labels<'l> = Vec<(&'static str, &'l str)>;

/// The text of the metrics that `collector` writes, each with the prefix `zerohop_`.
///
/// # Errors
/// Those of a writer; a string never fails.
pub fn encode_metrics(collector: impl MetricsCollector) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("zerohop");
    registry.register_collector(Box::new(collector));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

/// One metric, with a value for each set of labels.
pub struct Family<'e>(MetricEncoder<'e>);

impl<'e> Family<'e> {
    /// A metric that rises and falls.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn gauge(encoder: &'e mut MetricsEncoder<'_>, name: &'e str, help: &str) -> Result<Self, fmt::Error> {
        Family::new(encoder, name, help, MetricType::Gauge)
    }

    /// A metric that only rises; `_total` is added to its name.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn counter(
        encoder: &'e mut MetricsEncoder<'_>,
        name: &'e str,
        help: &str,
    ) -> Result<Self, fmt::Error> {
        Family::new(encoder, name, help, MetricType::Counter)
    }

    /// A distribution of values.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn histogram(
        encoder: &'e mut MetricsEncoder<'_>,
        name: &'e str,
        help: &str,
    ) -> Result<Self, fmt::Error> {
        Family::new(encoder, name, help, MetricType::Histogram)
    }

    fn new(
        encoder: &'e mut MetricsEncoder<'_>,
        name: &'e str,
        help: &str,
        kind: MetricType,
    ) -> Result<Self, fmt::Error> {
        Ok(Family(encoder.encode_descriptor(name, help, None::<&Unit>, kind)?))
    }

    /// Writes the value of a gauge.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn gauge_of(&mut self, labels: &Labels<'_>, value: u64) -> fmt::Result {
        self.value_of(labels, value as f64)
    }

    /// Writes the value of a gauge, which may have a fraction.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn value_of(&mut self, labels: &Labels<'_>, value: f64) -> fmt::Result {
        // Without labels there are no braces either.
        if labels.is_empty() {
            return self.0.encode_gauge(&value);
        }
        self.0.encode_family(labels)?.encode_gauge(&value)
    }

    /// Writes the value of a counter.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn counter_of(&mut self, labels: &Labels<'_>, value: u64) -> fmt::Result {
        if labels.is_empty() {
            return self.0.encode_counter::<NoLabelSet, u64, u64>(&value, None);
        }
        self.0.encode_family(labels)?.encode_counter::<NoLabelSet, u64, u64>(&value, None)
    }

    /// Writes a sum, a count, and the buckets with their upper bounds.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn histogram_of(
        &mut self,
        labels: &Labels<'_>,
        (sum, count, buckets): (f64, u64, &[(f64, u64)]),
    ) -> fmt::Result {
        let none = None::<&HashMap<usize, Exemplar<NoLabelSet, f64>>>;
        self.0.encode_family(labels)?.encode_histogram(sum, count, buckets, none)
    }
}
