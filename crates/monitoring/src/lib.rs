//! What nodes and gateways report to monitoring programs: histograms, metrics as text, and the host names for which HTTP is served.

mod family;
mod histogram;
mod web_names;

pub use family::{Family, Labels, METRICS_CONTENT_TYPE, MetricsCollector, MetricsEncoder, encode_metrics};
pub use histogram::{Histogram, LatencyHistogram};
pub use web_names::is_own;
