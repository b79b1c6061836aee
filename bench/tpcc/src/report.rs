//! The results: a table of the transactions, the conditions, and everything as JSON.

use std::fmt::Write;

use bench_common::{Machine, table};
use serde::Serialize;

use crate::conditions::ConditionResult;
use crate::inputs::TransactionKind;
use crate::terminals::{Orders, TerminalCounts};

/// The output of `--json`.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) subject: &'static str,
    pub(crate) setting: Setting,
    /// New-Orders per minute, those that were rolled back included (clause 5.4.2).
    pub(crate) tpmc: f64,
    pub(crate) transactions_per_second: f64,
    pub(crate) transactions: Vec<KindReport>,
    /// Transactions and New-Orders that ended in each second.
    pub(crate) seconds: Vec<(u64, u64)>,
    pub(crate) errors: Vec<String>,
    pub(crate) conditions: Vec<ConditionResult>,
}

/// The arguments of the run.
#[derive(Serialize)]
pub(crate) struct Setting {
    pub(crate) warehouses: u32,
    pub(crate) customers_per_district: u32,
    pub(crate) items: u32,
    pub(crate) terminals: u32,
    pub(crate) seconds: u64,
    pub(crate) copies: u16,
    pub(crate) durability: String,
    pub(crate) seed: u64,
}

/// The results of one kind of transaction.
#[derive(Serialize)]
pub(crate) struct KindReport {
    pub(crate) name: &'static str,
    pub(crate) committed: u64,
    pub(crate) rolled_back: u64,
    pub(crate) retries: u64,
    /// Retries of a hundred transactions that ended.
    pub(crate) retries_percent: f64,
    pub(crate) failed: u64,
    pub(crate) unknown: u64,
    pub(crate) p50_ms: f64,
    pub(crate) p90_ms: f64,
    pub(crate) p99_ms: f64,
}

impl Report {
    pub(crate) fn new(
        machine: Machine,
        (orders, copies, durability): (Orders, u16, &str),
        measured: TerminalCounts,
        conditions: Vec<ConditionResult>,
    ) -> Report {
        let seconds = orders.seconds as f64;
        let all: u64 = measured.kinds.iter().map(|counts| counts.latencies.count()).sum();
        let setting = Setting {
            warehouses: orders.scale.warehouses,
            customers_per_district: orders.scale.customers,
            items: orders.scale.items,
            terminals: orders.terminals,
            seconds: orders.seconds,
            copies,
            durability: durability.to_owned(),
            seed: orders.seed,
        };
        Report {
            machine,
            subject: "zerohop",
            setting,
            tpmc: measured.of(TransactionKind::NewOrder).latencies.count() as f64 * 60.0 / seconds,
            transactions_per_second: all as f64 / seconds,
            transactions: TransactionKind::MIX
                .iter()
                .map(|(kind, _)| KindReport::of(&measured, *kind))
                .collect(),
            seconds: measured.seconds,
            errors: measured.errors,
            conditions,
        }
    }

    /// No condition is violated, and no transaction failed.
    pub(crate) fn is_passed(&self) -> bool {
        self.conditions.iter().all(|condition| condition.violations == 0)
            && self.transactions.iter().all(|kind| kind.failed + kind.unknown == 0)
    }

    /// The report as text.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        // Writing into a string does not fail.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let Report { machine, setting, tpmc, transactions_per_second, .. } = self;
        let head = [
            "transaction",
            "committed",
            "rolled back",
            "retries %",
            "failed",
            "unknown",
            "p50 ms",
            "p90 ms",
            "p99 ms",
        ];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for kind in &self.transactions {
            let counts = [kind.committed, kind.rolled_back].map(|count| count.to_string());
            let failures = [kind.failed, kind.unknown].map(|count| count.to_string());
            let times = [kind.p50_ms, kind.p90_ms, kind.p99_ms].map(|time| format!("{time:.2}"));
            let row = std::iter::once(kind.name.to_owned())
                .chain(counts)
                .chain([format!("{:.1}", kind.retries_percent)])
                .chain(failures)
                .chain(times);
            rows.push(row.collect());
        }
        table(out, &rows)?;
        writeln!(out, "\n{tpmc:.0} tpmC, {transactions_per_second:.1} transactions/s")?;
        for error in &self.errors {
            writeln!(out, "- FAILED {error}")?;
        }
        for condition in &self.conditions {
            let ConditionResult { number, about, violations, examples } = condition;
            match violations {
                0 => writeln!(out, "- condition {number}, {about}: met")?,
                _ => writeln!(out, "- condition {number}, {about}: VIOLATED {violations} times")?,
            }
            examples.iter().try_for_each(|example| writeln!(out, "  - {example}"))?;
        }
        let Setting {
            warehouses, customers_per_district, items, terminals, seconds, copies, durability, ..
        } = setting;
        writeln!(
            out,
            "\n{warehouses} warehouses with {terminals} terminals each, {customers_per_district} customers per district, {items} items; \
             {copies} copies, durability {durability}; {seconds} s without think time: not a result of TPC-C by its rules\n{machine}"
        )
    }
}

impl KindReport {
    fn of(measured: &TerminalCounts, kind: TransactionKind) -> KindReport {
        let counts = measured.of(kind);
        let ended = counts.committed + counts.rolled_back + counts.failed + counts.unknown;
        let ms = |part: f64| counts.latencies.percentile(part) as f64 / 1e6;
        KindReport {
            name: kind.name(),
            committed: counts.committed,
            rolled_back: counts.rolled_back,
            retries: counts.retries,
            retries_percent: counts.retries as f64 * 100.0 / ended.max(1) as f64,
            failed: counts.failed,
            unknown: counts.unknown,
            p50_ms: ms(0.5),
            p90_ms: ms(0.9),
            p99_ms: ms(0.99),
        }
    }
}
