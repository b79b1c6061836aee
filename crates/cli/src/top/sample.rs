//! A node's metrics at one time, and the difference between two samples.

use std::collections::BTreeMap;

use serde::Serialize;

/// The values of `/metrics`, summed over the node's instances: by name, with the labels `stage` and `le`
/// behind it where there are any: `{le="…"}`, `{stage="…"}`, `{stage="…",le="…"}`.
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
    /// The stages in which operations wait, in their order; `None`: they were not requested, or the node cannot report them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) waits: Option<Vec<StageFigures>>,
}

/// The waits of operations in one stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct StageFigures {
    pub(super) stage: &'static str,
    pub(super) waits_per_s: f64,
    /// The time of all operations in this stage: the mean number of operations in it.
    pub(super) seconds_per_s: f64,
    /// The bounds of the histogram's buckets, in microseconds; `None`: no operation was in this stage.
    pub(super) us_p50: Option<f64>,
    pub(super) us_p99: Option<f64>,
}

/// The stages, in the order of an operation's way.
const STAGES: [&str; 6] = ["queue", "log", "flush", "peers", "other", "socket"];

/// The buckets of batches.
const BATCHES: &str = "zerohop_batch_seconds_bucket{le=\"";

impl Sample {
    /// Parses the text of metrics; other lines are skipped.
    pub(super) fn read(text: &str) -> Self {
        let mut sums = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((name, value)) = line.rsplit_once(' ') else { continue };
            let Ok(value) = value.parse::<f64>() else { continue };
            let (name, labels) = name.split_once('{').unwrap_or((name, ""));
            let label = |name: &str| labels.split([',', '}']).find(|label| label.starts_with(name));
            let key = match (label("stage="), label("le=")) {
                (Some(stage), Some(bucket)) => format!("{name}{{{stage},{bucket}}}"),
                (Some(label), None) | (None, Some(label)) => format!("{name}{{{label}}}"),
                (None, None) => name.to_owned(),
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
            batch_us_p50: self.quantile(before, BATCHES, 0.5),
            batch_us_p99: self.quantile(before, BATCHES, 0.99),
            connections: self.get("connections"),
            records: self.get("records"),
            log_bytes: self.get("log_bytes"),
            resident_bytes: self.get("process_resident_bytes"),
            processors: rate("process_cpu_seconds_total"),
            troubles: self.get("troubles"),
            waits: self.waits(before, seconds),
        }
    }

    /// The stages in which operations waited since `before`; `None`: the sample has none.
    fn waits(&self, before: &Sample, seconds: f64) -> Option<Vec<StageFigures>> {
        let of_stage = |stage: &&'static str| {
            let rate = |part: &str| {
                let name = format!("zerohop_stage_seconds_{part}{{stage=\"{stage}\"}}");
                let now = self.0.get(&name)?;
                Some(((now - before.0.get(&name).copied().unwrap_or(0.0)) / seconds).max(0.0))
            };
            let buckets = format!("zerohop_stage_seconds_bucket{{stage=\"{stage}\",le=\"");
            Some(StageFigures {
                stage,
                waits_per_s: rate("count")?,
                seconds_per_s: rate("sum")?,
                us_p50: self.quantile(before, &buckets, 0.5),
                us_p99: self.quantile(before, &buckets, 0.99),
            })
        };
        let waits: Vec<StageFigures> = STAGES.iter().filter_map(of_stage).collect();
        (!waits.is_empty()).then_some(waits)
    }

    /// The bound of the bucket that contains this quantile of the values since `before`, in microseconds. `prefix`: of the buckets of
    /// the histogram, up to their bounds.
    fn quantile(&self, before: &Sample, prefix: &str, part: f64) -> Option<f64> {
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
            waits: match (self.waits, &other.waits) {
                (Some(one), Some(other)) => {
                    Some(one.into_iter().zip(other).map(|(one, other)| one.with(other)).collect())
                }
                (one, other) => one.or_else(|| other.clone()),
            },
        }
    }
}

/// The longer of two times.
fn longer(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.max(other)),
        (one, other) => one.or(other),
    }
}

impl StageFigures {
    /// The sum of both nodes in the same stage; for times the maximum.
    fn with(self, other: &StageFigures) -> StageFigures {
        StageFigures {
            stage: self.stage,
            waits_per_s: self.waits_per_s + other.waits_per_s,
            seconds_per_s: self.seconds_per_s + other.seconds_per_s,
            us_p50: longer(self.us_p50, other.us_p50),
            us_p99: longer(self.us_p99, other.us_p99),
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
    fn waits_are_by_stage_and_nodes_are_added() {
        let text = |[flush, log]: [u64; 2]| {
            format!(
                "zerohop_stage_seconds_sum{{instance=\"1\",stage=\"flush\"}} {}\n\
                 zerohop_stage_seconds_count{{instance=\"1\",stage=\"flush\"}} {flush}\n\
                 zerohop_stage_seconds_bucket{{le=\"0.001024\",instance=\"1\",stage=\"flush\"}} 0\n\
                 zerohop_stage_seconds_bucket{{le=\"0.002048\",instance=\"1\",stage=\"flush\"}} {flush}\n\
                 zerohop_stage_seconds_bucket{{le=\"+Inf\",instance=\"1\",stage=\"flush\"}} {flush}\n\
                 zerohop_stage_seconds_sum{{instance=\"1\",stage=\"log\"}} 0\n\
                 zerohop_stage_seconds_count{{instance=\"1\",stage=\"log\"}} {log}\n\
                 zerohop_stage_seconds_bucket{{le=\"0.001024\",instance=\"1\",stage=\"log\"}} {log}\n\
                 zerohop_stage_seconds_bucket{{le=\"+Inf\",instance=\"1\",stage=\"log\"}} {log}\n",
                flush as f64 * 0.0015
            )
        };
        let figures = Sample::read(&text([20, 100])).since(&Sample::read(&text([0, 100])), 2.0);
        let flush = StageFigures {
            stage: "flush",
            waits_per_s: 10.0,
            seconds_per_s: 0.015,
            us_p50: Some(2048.0),
            us_p99: Some(2048.0),
        };
        let log =
            StageFigures { stage: "log", waits_per_s: 0.0, seconds_per_s: 0.0, us_p50: None, us_p99: None };
        assert_eq!(figures.waits, Some(vec![log, flush]));
        let total = figures.clone().with(&figures).waits.unwrap();
        assert_eq!((total[1].waits_per_s, total[1].us_p99), (20.0, Some(2048.0)));
        assert_eq!(Figures::default().with(&figures).waits, figures.waits);
        assert_eq!(Sample::default().since(&Sample::default(), 1.0).waits, None);
    }

    #[test]
    fn value_beyond_last_histogram_bound_is_reported_as_that_bound() {
        let figures = Sample::read(&text([0, 0], [0, 0, 9])).since(&Sample::default(), 1.0);
        assert_eq!(figures.batch_us_p50, Some(128.0));
    }
}
