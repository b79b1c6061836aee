//! Access control lists, of which there is one for everything: the owner may do all, and all clients what the policy says.

use s3s::dto::*;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Result};
use zerohop_objects::{self as layer, BucketRecord, ObjectError, Store, VersionLookup};

use super::policies::{blocked, set_policy};
use super::{ObjectApi, convert, errors, object_name};
use crate::policy::{self, PublicAction};
use crate::public_access::{self, AccessBlock};

/// The group of all clients.
const ALL_USERS: &str = "http://acs.amazonaws.com/groups/global/AllUsers";

/// The only owner.
pub(super) fn owner() -> Owner {
    Owner { display_name: None, id: Some("zerohop".to_owned()) }
}

fn not_supported(message: &'static str) -> S3Error {
    errors::refuse(S3ErrorCode::AccessControlListNotSupported, message)
}

fn refused() -> S3Error {
    not_supported(
        "The bucket owner owns all objects, and policies make them public: the only ACLs are private and, for an \
         object, bucket-owner-full-control.",
    )
}

/// Checks the canned ACL and the grants of a new object.
macro_rules! check_canned {
    ($input:expr) => {
        $crate::api::acls::check_object_acl(
            $input.acl.as_ref(),
            [&$input.grant_full_control, &$input.grant_read, &$input.grant_read_acp, &$input.grant_write_acp],
        )
    };
}
pub(super) use check_canned;

/// Checks that an ACL of an object grants nothing.
pub(super) fn check_object_acl(acl: Option<&ObjectCannedACL>, grants: [&Option<String>; 4]) -> S3Result<()> {
    let permitted = [ObjectCannedACL::PRIVATE, ObjectCannedACL::BUCKET_OWNER_FULL_CONTROL];
    let is_private = acl.is_none_or(|acl| permitted.contains(&acl.as_str()));
    if is_private && grants.iter().all(|grant| grant.is_none()) { Ok(()) } else { Err(refused()) }
}

/// Checks that the ACL of a new bucket grants nothing.
pub(super) fn check_new_bucket(input: &CreateBucketInput) -> S3Result<()> {
    let grants = [
        &input.grant_full_control,
        &input.grant_read,
        &input.grant_read_acp,
        &input.grant_write,
        &input.grant_write_acp,
    ];
    let is_private = input.acl.as_ref().is_none_or(|acl| acl.as_str() == BucketCannedACL::PRIVATE);
    if !is_private || grants.iter().any(|grant| grant.is_some()) {
        return Err(not_supported(
            "A new bucket is private: create it, and put a policy or the ACL public-read afterwards.",
        ));
    }
    input.object_ownership.as_ref().map_or(Ok(()), check_ownership)
}

fn check_ownership(ownership: &ObjectOwnership) -> S3Result<()> {
    match ownership.as_str() {
        ObjectOwnership::BUCKET_OWNER_ENFORCED => Ok(()),
        _ => Err(not_supported("The only object ownership is BucketOwnerEnforced.")),
    }
}

/// Whether a document grants everything to the owner, and nothing to others.
fn is_private(document: &AccessControlPolicy) -> bool {
    let owner = owner().id;
    document.grants.iter().flatten().all(|grant| {
        let grantee = grant.grantee.as_ref();
        let permission = grant.permission.as_ref().map(Permission::as_str);
        permission == Some(Permission::FULL_CONTROL)
            && grantee.is_some_and(|grantee| grantee.id == owner && grantee.uri.is_none())
    })
}

/// The grants of a bucket or an object.
fn grants(is_public: bool) -> Grants {
    let grantee = |kind| Grantee {
        display_name: None,
        email_address: None,
        id: None,
        type_: Type::from_static(kind),
        uri: None,
    };
    let grant = |grantee, permission| Grant {
        grantee: Some(grantee),
        permission: Some(Permission::from_static(permission)),
    };
    let own = Grantee { id: owner().id, ..grantee(Type::CANONICAL_USER) };
    let all = Grantee { uri: Some(ALL_USERS.to_owned()), ..grantee(Type::GROUP) };
    let mut grants = vec![grant(own, Permission::FULL_CONTROL)];
    if is_public {
        grants.push(grant(all, Permission::READ));
    }
    grants
}

pub(super) async fn get_bucket_acl<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<GetBucketAclInput>,
) -> S3Result<GetBucketAclOutput> {
    let name = request.input.bucket;
    let bucket = api.run(layer::head_bucket(name.clone())).await?;
    let policy = public_access::of_bucket(&name, &bucket);
    let is_public = policy.is_some_and(|policy| policy.permits(PublicAction::ListBucket, ""));
    Ok(GetBucketAclOutput { grants: Some(grants(is_public)), owner: Some(owner()) })
}

pub(super) async fn put_bucket_acl<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<PutBucketAclInput>,
) -> S3Result<PutBucketAclOutput> {
    let input = request.input;
    let headers = [
        &input.grant_full_control,
        &input.grant_read,
        &input.grant_read_acp,
        &input.grant_write,
        &input.grant_write_acp,
    ];
    if headers.iter().any(|grant| grant.is_some()) {
        return Err(refused());
    }
    let canned = match (&input.acl, &input.access_control_policy) {
        (Some(acl), None) => acl.as_str(),
        (None, Some(document)) if is_private(document) => BucketCannedACL::PRIVATE,
        _ => return Err(refused()),
    };
    match canned {
        BucketCannedACL::PRIVATE => {
            // The policy that `public-read` has put is removed, and no other one.
            let keeps = |name: &str, bucket: &BucketRecord| {
                public_access::policy_text(bucket) != Some(&policy::public_read(name)[..])
            };
            set_policy(api, input.bucket, None, keeps).await?;
        }
        BucketCannedACL::PUBLIC_READ => {
            let bucket = api.run(layer::head_bucket(input.bucket.clone())).await?;
            let (text, name) = (policy::public_read(&input.bucket), input.bucket);
            if public_access::policy_text(&bucket).is_some_and(|other| other != text) {
                return Err(not_supported("The bucket has a policy: change that instead of the ACL."));
            }
            let refuses = |name: &str, bucket: &BucketRecord| {
                let block = AccessBlock::of(bucket).unwrap_or_default();
                let other = public_access::policy_text(bucket);
                block.has(AccessBlock::PUBLIC_ACLS)
                    || block.has(AccessBlock::PUBLIC_POLICY)
                    || other.is_some_and(|other| other != policy::public_read(name))
            };
            if !set_policy(api, name, Some(text), refuses).await? {
                return Err(blocked());
            }
        }
        _ => {
            return Err(not_supported(
                "The only ACLs of a bucket are private and public-read; the bucket owner owns all objects.",
            ));
        }
    }
    Ok(PutBucketAclOutput::default())
}

/// Finds an object, and whether all clients may read it.
async fn find_public<S: Store>(
    api: &ObjectApi<S>,
    (bucket, key, version): (&str, &str, Option<&String>),
) -> S3Result<bool> {
    let record = api.run(layer::head_bucket(bucket.to_owned())).await?;
    let named = convert::version_name(version.map(String::as_str))?;
    let found = api.run(layer::get_version(bucket.to_owned(), object_name(key)?, named)).await?;
    if let VersionLookup::Marker(_) = found {
        let absent = if named.is_some() { ObjectError::DeleteMarker } else { ObjectError::NoSuchObject };
        return Err(errors::of(absent));
    }
    let action = if version.is_some() { PublicAction::GetObjectVersion } else { PublicAction::GetObject };
    Ok(public_access::of_bucket(bucket, &record).is_some_and(|policy| policy.permits(action, key)))
}

pub(super) async fn get_object_acl<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<GetObjectAclInput>,
) -> S3Result<GetObjectAclOutput> {
    let input = &request.input;
    let is_public = find_public(api, (&input.bucket, &input.key, input.version_id.as_ref())).await?;
    Ok(GetObjectAclOutput {
        grants: Some(grants(is_public)),
        owner: Some(owner()),
        ..GetObjectAclOutput::default()
    })
}

pub(super) async fn put_object_acl<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<PutObjectAclInput>,
) -> S3Result<PutObjectAclOutput> {
    let input = &request.input;
    check_canned!(input)?;
    if input.grant_write.is_some() || input.access_control_policy.as_ref().is_some_and(|one| !is_private(one))
    {
        return Err(refused());
    }
    find_public(api, (&input.bucket, &input.key, input.version_id.as_ref())).await?;
    Ok(PutObjectAclOutput::default())
}

pub(super) async fn put_bucket_ownership_controls<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<PutBucketOwnershipControlsInput>,
) -> S3Result<PutBucketOwnershipControlsOutput> {
    let input = request.input;
    input.ownership_controls.rules.iter().try_for_each(|rule| check_ownership(&rule.object_ownership))?;
    api.run(layer::head_bucket(input.bucket)).await?;
    Ok(PutBucketOwnershipControlsOutput::default())
}

pub(super) async fn get_bucket_ownership_controls<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<GetBucketOwnershipControlsInput>,
) -> S3Result<GetBucketOwnershipControlsOutput> {
    api.run(layer::head_bucket(request.input.bucket)).await?;
    let object_ownership = ObjectOwnership::from_static(ObjectOwnership::BUCKET_OWNER_ENFORCED);
    let rules = vec![OwnershipControlsRule { object_ownership }];
    Ok(GetBucketOwnershipControlsOutput { ownership_controls: Some(OwnershipControls { rules }) })
}
