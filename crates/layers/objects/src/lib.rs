//! Objects: buckets, objects and multipart uploads as records of one ordered keyspace, with their bytes in blobs.
//!
//! ```text
//!   gateway, program ──▶ procedure (step: event in, effect out) ──▶ driver ──▶ transactions, scans, blobs
//! ```
//!
//! - An object's record names a *body set*. A set has one body (a plain put), or the bodies and the *manifest* of a
//!   completed upload. Copies share a set by a counted reference, which the transaction of the object changes.
//! - With versioning, an object that is replaced stays as an older version, and a removal writes a delete marker. The versions of
//!   a name form a list, and one transaction changes all of its links.
//! - A body is written first, under a record that is *pending* until a moment; the commit makes it live. The [`Sweep`]
//!   removes what stays pending, and sets without references after the time of grace for readers.
//! - Lifecycle rules of a bucket let objects, older versions and uploads expire: the [`RuleSweep`] carries them out.
//! - Each transaction is a function of what it reads, and its commit confirms the version of each record read. The decisions of puts,
//!   reads, copies and removals may also be parts of a transaction that has other parts and stays open.
//!
//! The procedures open no socket, read no clock and draw no random numbers: ids and times are arguments.

mod bucket;
mod complete;
mod condition;
mod copy;
mod error;
mod ids;
pub mod keys;
mod list;
mod list_versions;
mod object;
mod optimistic;
mod part;
pub mod planted;
mod procedure;
mod records;
mod references;
mod removal;
mod rule_sweep;
mod rules;
mod stack;
mod store;
mod sweep;
mod upload;

pub use bucket::{ListBuckets, change_bucket, create_bucket, edit_bucket, head_bucket, set_versioning};
pub use complete::{Assemble, CompleteUpload, NamedPart};
pub use condition::{Conditions, ETagMatch};
pub use copy::{CheckSource, CopyObject, CopyPart, DescribeRange, copy_decision, copy_object, copy_part};
pub use error::ObjectError;
pub use ids::{BodyId, BodyRange, SetId, WHOLE_OBJECT};
pub use list::{ListEntry, ListPage, ListParts, ListRequest, Listing, list_objects, list_uploads};
pub use list_versions::{ListVersions, VersionEntry, VersionPage};
pub use object::{
    DeleteObject, ObjectLocation, PutObject, RemovalOutcome, VersionLookup, WrittenObject, change_tags,
    delete_decision, delete_object, get_decision, get_object, get_version, put_decision, put_object,
    stage_body,
};
pub use part::{PutPart, put_part, renew_body, stage_part};
pub use procedure::{BodyDeletion, Effect, Event, Procedure, Step, Version, VersionedRecord, Write};
pub use records::{
    BodyRecord, BucketRecord, Checksum, ETag, Expiration, FilterForm, LifecycleRule, LifecycleRules,
    Manifest, MarkerRecord, NoncurrentExpiration, ObjectRecord, Pairs, PartRecord, Record, RuleFilter,
    SetRecord, StoredVersion, UploadRecord, VersionId, VersionLinks, VersionName, Versioning,
};
pub use references::Lifetimes;
pub use removal::DeleteBucket;
pub use rule_sweep::{RulePage, RulePlace, RuleReport, RuleSweep};
pub use rules::ObjectExpiry;
pub use store::{BodyWriter, Store, StorePage, run};
pub use sweep::{Sweep, SweepReport};
pub use upload::{CreateUpload, abort_upload, create_upload, head_upload};
