//! What must hold after all faults, when no gateway works and the sweep has nothing left to do.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use zerohop_objects::{
    Manifest, ObjectError, PartRecord, Record, Store, StoredVersion, Sweep, VersionName, abort_upload,
    get_object, keys, run,
};

use crate::gateway::{Gateway, PLAIN, SHORT_LIVED, VERSIONED};

/// Sweeps, and the pauses between them: all times of bodies and of grace are over by then.
const SWEEPS: u32 = 8;
const PAUSE: Duration = Duration::from_millis(2_500);

/// Attempts of each step: the cluster is whole, but clients may have old maps.
const ATTEMPTS: u32 = 5;

impl Gateway {
    /// Sweeps until everything that nothing names must be gone, and compares all records and bodies.
    pub(crate) async fn conclude(mut self) {
        if let Err(what) = self.check_rest().await {
            self.history.lock().wrong.push(what);
        }
        self.history.lock().check();
    }

    async fn check_rest(&mut self) -> Result<(), String> {
        if self.client.random.chance(1, 2) {
            self.abort_uploads().await?;
        }
        for _ in 0..SWEEPS {
            self.client.cluster.sleep(PAUSE).await;
            let mut result = Ok(Default::default());
            for _ in 0..ATTEMPTS {
                result = run(&self.store, Sweep::new(crate::gateway::LIFETIMES, 1000)).await;
                if result.is_ok() {
                    break;
                }
            }
            result.map_err(|error| format!("the last sweep fails: {error}"))?;
        }
        let records = self.records().await?;
        check_records(&records)?;
        let mut report = self.store.store.check().await;
        for _ in 1..ATTEMPTS {
            if report.is_err() {
                report = self.store.store.check().await;
            }
        }
        let report = report.map_err(|error| format!("the check fails: {error}"))?;
        if let Some(fault) = report.faults.first() {
            return Err(format!("{fault} (of {} faults)", report.faults.len()));
        }
        if report.unused_bodies > 0 {
            return Err(format!("{} bodies stay that no object has", report.unused_bodies));
        }
        for bucket in [PLAIN, VERSIONED, SHORT_LIVED] {
            for name in crate::gateway::NAMES {
                self.read_last((bucket.to_owned(), name.as_bytes().to_vec())).await?;
            }
        }
        Ok(())
    }

    async fn read_last(&mut self, target: (String, Vec<u8>)) -> Result<(), String> {
        for _ in 0..ATTEMPTS {
            let since = self.store.now();
            match run(&self.store, get_object(target.0.clone(), target.1.clone())).await {
                Ok(found) => {
                    if self.read(&target, since, &found).await {
                        break;
                    }
                }
                Err(ObjectError::Unavailable(_)) => continue,
                Err(_) => break,
            }
        }
        // The same object as a call of the history.
        self.get(target).await;
        Ok(())
    }

    async fn abort_uploads(&mut self) -> Result<(), String> {
        for (key, _) in self.records().await?.range(vec![b'u']..vec![b'v']) {
            for bucket in [PLAIN, VERSIONED, SHORT_LIVED] {
                let Some((name, id)) = keys::upload_of(bucket, key) else { continue };
                for _ in 0..ATTEMPTS {
                    match run(&self.store, abort_upload((bucket.to_owned(), name.clone()), id)).await {
                        Err(ObjectError::Unavailable(_)) => {}
                        _ => break,
                    }
                }
            }
        }
        Ok(())
    }

    /// All records.
    async fn records(&self) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, String> {
        let (mut records, mut from, mut failures) = (BTreeMap::new(), vec![0], 0);
        loop {
            match self.store.scan(from.clone(), vec![0xff], 200).await {
                Ok((entries, next)) => {
                    records.extend(entries);
                    match next {
                        Some(next) => from = next,
                        None => return Ok(records),
                    }
                }
                Err(error) if failures == ATTEMPTS => return Err(format!("the last scan fails: {error}")),
                Err(_) => failures += 1,
            }
        }
    }
}

/// Compares records with each other, beside what the check of a cluster does.
fn check_records(records: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<(), String> {
    let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
    let of = |letter: u8| records.range(vec![letter]..vec![letter + 1]);
    if let Some((key, _)) = of(b't').next() {
        return Err(format!("the timer {key:?} stays"));
    }
    for letter in [b'o', b'v', b'u'] {
        for (key, value) in of(letter) {
            let bucket = key[1..].split(|byte| *byte == 0).next().unwrap_or_default();
            if !records.contains_key(&[b"b", bucket].concat()) {
                return Err(format!("{} is in a bucket that is gone", text(key)));
            }
            if letter != b'u' && StoredVersion::decode(value).is_none() {
                return Err(format!("{} has no record", text(key)));
            }
        }
    }
    let mut nulls = BTreeSet::new();
    for (letter, behind) in [(b'o', 0), (b'v', 17)] {
        for (key, value) in of(letter) {
            let name = key[1..key.len() - behind].to_vec();
            let version = StoredVersion::decode(value).map(|version| version.links().name());
            if version == Some(VersionName::Null) && !nulls.insert(name) {
                return Err(format!("{} has two versions without a name", text(key)));
            }
        }
    }
    for (key, value) in of(b'p') {
        let part = PartRecord::decode(value).ok_or("a part has no record")?;
        let manifest = records.get(&[b"l", &key[1..17]].concat());
        let Some(manifest) = manifest.and_then(|value| Manifest::decode(value)) else { continue };
        let listed: BTreeSet<u16> = manifest.parts.iter().map(|part| part.number).collect();
        if !listed.contains(&part.number) {
            return Err(format!("part {} stays, which its object does not have", part.number));
        }
    }
    Ok(())
}
