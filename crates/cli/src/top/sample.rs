//! A node's metrics at one time, and the difference between two samples.

use std::collections::BTreeMap;

use serde::Serialize;

/// The values of `/metrics`, summed over the node's instances: by name, with `{le="…"}` behind it
/// for buckets.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sample(BTreeMap<String, f64>);

/// The activity of a node over some time, and its state.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Figures {
    pub(super) answers_per_s: f64,
    pub(super) failures_per_s: f64,
    pub(super) received_bytes_per_s: f64,
    pub(super) sent_bytes_per_s: f64,
    /// Time from the first request of an event loop's batch to its answers, in microseconds: the
    /// bound of the histogram's bucket; `None`: there was no batch.
    pub(super) batch_us_p50: Option<f64>,
    pub(super) batch_us_p99: Option<f64>,
    pub(super) connections: f64,
    pub(super) records: f64,
    pub(super) log_bytes: f64,
    pub(super) resident_bytes: f64,
    /// Processor time: 2.0 is two full processors.
    pub(super) processors: f64,
    pub(super) troubles: f64,
}

impl Sample {
    /// Parses the text of metrics; other lines are skipped.
    pub(super) fn read(text: &str) -> Self {
        let mut sums = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((name, value)) = line.rsplit_once(' ') else { continue };
            let Ok(value) = value.parse::<f64>() else { continue };
            let (name, labels) = name.split_once('{').unwrap_or((name, ""));
            let bucket = labels.split(['{', ',', '}']).find(|label| label.starts_with("le="));
            let key = match bucket {
                Some(bucket) => format!("{name}{{{bucket}}}"),
                None => name.to_owned(),
            };
            *sums.entry(key).or_insert(0.0) += value;
        }
        Self(sums)
    }

    fn get(&self, name: &str) -> f64 {
        self.0.get(&format!("zerohop_{name}")).copied().unwrap_or(0.0)
    }

    /// The activity since `before`, this many seconds ago.
    pub(super) fn since(&self, before: &Sample, seconds: f64) -> Figures {
        // The counters of a restarted node begin at zero.
        let rate = |name: &str| ((self.get(name) - before.get(name)) / seconds).max(0.0);
        Figures {
            answers_per_s: rate("answers_total") + rate("redis_commands_total"),
            failures_per_s: rate("failures_total"),
            received_bytes_per_s: rate("received_bytes_total"),
            sent_bytes_per_s: rate("sent_bytes_total"),
            batch_us_p50: self.quantile(before, 0.5),
            batch_us_p99: self.quantile(before, 0.99),
            connections: self.get("connections"),
            records: self.get("records"),
            log_bytes: self.get("log_bytes"),
            resident_bytes: self.get("process_resident_bytes"),
            processors: rate("process_cpu_seconds_total"),
            troubles: self.get("troubles"),
        }
    }

    /// The bound of the bucket that contains this quantile of the batches since `before`.
    fn quantile(&self, before: &Sample, part: f64) -> Option<f64> {
        let prefix = "zerohop_batch_seconds_bucket{le=\"";
        let mut buckets: Vec<(f64, f64)> = self
            .0
            .range(prefix.to_owned()..)
            .take_while(|(name, _)| name.starts_with(prefix))
            .filter_map(|(name, count)| {
                let bound = name.strip_prefix(prefix)?.strip_suffix("\"}")?;
                let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().ok()? };
                Some((bound, count - before.0.get(name).copied().unwrap_or(0.0)))
            })
            .collect();
        buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
        let all = buckets.last()?.1;
        let found = buckets.iter().find(|(_, count)| all > 0.0 && *count >= all * part)?;
        // JSON has no infinity: a value beyond the last finite bound is reported as that bound.
        let last = buckets.iter().rev().map(|(bound, _)| *bound).find(|bound| bound.is_finite());
        // Bounds are in seconds, figures in microseconds.
        let bound = if found.0.is_finite() { Some(found.0) } else { last };
        bound.map(|seconds| (seconds * 1e6).round())
    }
}

impl Figures {
    /// The sum of both nodes; for times the maximum.
    pub(super) fn with(self, other: &Figures) -> Figures {
        let longer = |one: Option<f64>, other: Option<f64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.max(other)),
            (one, other) => one.or(other),
        };
        Figures {
            answers_per_s: self.answers_per_s + other.answers_per_s,
            failures_per_s: self.failures_per_s + other.failures_per_s,
            received_bytes_per_s: self.received_bytes_per_s + other.received_bytes_per_s,
            sent_bytes_per_s: self.sent_bytes_per_s + other.sent_bytes_per_s,
            batch_us_p50: longer(self.batch_us_p50, other.batch_us_p50),
            batch_us_p99: longer(self.batch_us_p99, other.batch_us_p99),
            connections: self.connections + other.connections,
            records: self.records + other.records,
            log_bytes: self.log_bytes + other.log_bytes,
            resident_bytes: self.resident_bytes + other.resident_bytes,
            processors: self.processors + other.processors,
            troubles: self.troubles + other.troubles,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(answers: [u64; 2], buckets: [u64; 3]) -> String {
        let [one, other] = answers;
        let [fast, slow, all] = buckets;
        format!(
            "# HELP zerohop_answers Answers sent.\n# TYPE zerohop_answers counter\n\
             zerohop_answers_total{{instance=\"1\"}} {one}\nzerohop_answers_total{{instance=\"2\"}} {other}\n\
             zerohop_redis_commands_total{{instance=\"1\"}} {other}\n\
             zerohop_connections{{instance=\"1\"}} 3\nzerohop_process_cpu_seconds_total 0.5\n\
             zerohop_batch_seconds_bucket{{le=\"0.000016\",instance=\"1\"}} {fast}\n\
             zerohop_batch_seconds_bucket{{le=\"0.000128\",instance=\"1\"}} {slow}\n\
             zerohop_batch_seconds_bucket{{le=\"+Inf\",instance=\"1\"}} {all}\n# EOF\n"
        )
    }

    #[test]
    fn rates_are_of_all_instances_and_of_the_time_between() {
        let before = Sample::read(&text([100, 10], [5, 5, 5]));
        let figures = Sample::read(&text([300, 30], [95, 104, 105])).since(&before, 2.0);
        assert_eq!((figures.answers_per_s, figures.connections), (120.0, 3.0));
        assert_eq!((figures.batch_us_p50, figures.batch_us_p99), (Some(16.0), Some(128.0)));
        assert_eq!(figures.processors, 0.0);
        let slower = Sample::read(&text([300, 30], [45, 104, 105])).since(&before, 2.0);
        assert_eq!(slower.batch_us_p50, Some(128.0), "40 of 100 are not the half");
    }

    #[test]
    fn restarted_node_has_no_negative_rates_and_idle_node_no_latency() {
        let before = Sample::read(&text([100, 10], [5, 5, 5]));
        let figures = Sample::read(&text([1, 0], [5, 5, 5])).since(&before, 1.0);
        assert_eq!((figures.answers_per_s, figures.batch_us_p50), (0.0, None));
        assert_eq!(Sample::read("nonsense\n\n# x\n").since(&before, 1.0).records, 0.0);
    }

    #[test]
    fn value_beyond_last_histogram_bound_is_reported_as_that_bound() {
        let figures = Sample::read(&text([0, 0], [0, 0, 9])).since(&Sample::default(), 1.0);
        assert_eq!(figures.batch_us_p50, Some(128.0));
    }
}
