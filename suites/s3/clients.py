"""What boto3 sees of the S3 gateway, with its default settings.

The argument is the endpoint of a gateway whose cluster has no secret; or the arguments are a program that serves a store in
memory. Each function of the name `test_*` is one case.
"""

import hashlib
import io
import json
import os
import subprocess
import sys
import urllib.request

import boto3
from botocore import UNSIGNED
from botocore.client import Config
from botocore.exceptions import ClientError

MIB = 1 << 20
# A cluster without a secret has any access key id.
IS_ENDPOINT = sys.argv[1].startswith("http")
SECRET_KEY = "zerohop" if IS_ENDPOINT else "tester-secret"


def fails(status, code, call, **arguments):
    """Whether the call fails with this status and code."""
    try:
        call(**arguments)
    except ClientError as error:
        got = (error.response["ResponseMetadata"]["HTTPStatusCode"], error.response["Error"]["Code"])
        assert got == (status, code), f"{got} in place of {(status, code)}"
        return error.response
    raise AssertionError(f"{code} does not come")


def test_buckets(s3):
    s3.create_bucket(Bucket="second-bucket")
    fails(409, "BucketAlreadyOwnedByYou", s3.create_bucket, Bucket="second-bucket")
    assert [one["Name"] for one in s3.list_buckets()["Buckets"]] == ["bucket", "second-bucket"]
    s3.head_bucket(Bucket="second-bucket")
    assert s3.get_bucket_location(Bucket="second-bucket")["LocationConstraint"] is None
    s3.put_object(Bucket="second-bucket", Key="a", Body=b"x")
    fails(409, "BucketNotEmpty", s3.delete_bucket, Bucket="second-bucket")
    s3.delete_object(Bucket="second-bucket", Key="a")
    s3.create_multipart_upload(Bucket="second-bucket", Key="b")
    s3.delete_bucket(Bucket="second-bucket")
    fails(404, "404", s3.head_bucket, Bucket="second-bucket")
    fails(404, "NoSuchBucket", s3.list_objects_v2, Bucket="second-bucket")
    fails(404, "NoSuchBucket", s3.put_object, Bucket="second-bucket", Key="a", Body=b"x")


def test_objects(s3):
    body = os.urandom(3 * MIB + 17)
    put = s3.put_object(
        Bucket="bucket",
        Key="dir/ä b+c",
        Body=body,
        ContentType="text/x",
        CacheControl="no-cache",
        Metadata={"one": "1"},
        Tagging="a=1&b=2",
    )
    assert put["ETag"] == f'"{hashlib.md5(body).hexdigest()}"'
    got = s3.get_object(Bucket="bucket", Key="dir/ä b+c")
    assert got["Body"].read() == body and got["ContentType"] == "text/x" and got["Metadata"] == {"one": "1"}
    assert got["ETag"] == put["ETag"] and got["TagCount"] == 2 and "ContentEncoding" not in got
    head = s3.head_object(Bucket="bucket", Key="dir/ä b+c", ChecksumMode="ENABLED")
    assert head["ContentLength"] == len(body) and head["ChecksumCRC32"] == put["ChecksumCRC32"]
    s3.put_object(Bucket="bucket", Key="empty", Body=b"")
    assert s3.get_object(Bucket="bucket", Key="empty")["Body"].read() == b""
    fails(404, "NoSuchKey", s3.get_object, Bucket="bucket", Key="no")
    s3.delete_object(Bucket="bucket", Key="no")
    s3.put_object_tagging(Bucket="bucket", Key="empty", Tagging={"TagSet": [{"Key": "k", "Value": "v"}]})
    assert s3.get_object_tagging(Bucket="bucket", Key="empty")["TagSet"] == [{"Key": "k", "Value": "v"}]


def test_ranges(s3):
    s3.put_object(Bucket="bucket", Key="range", Body=b"0123456789")

    def get(text):
        return s3.get_object(Bucket="bucket", Key="range", Range=text)

    got = get("bytes=2-4")
    assert got["Body"].read() == b"234" and got["ContentRange"] == "bytes 2-4/10"
    assert got["ResponseMetadata"]["HTTPStatusCode"] == 206
    assert get("bytes=8-99")["ContentRange"] == "bytes 8-9/10"
    assert get("bytes=-3")["Body"].read() == b"789"
    response = fails(416, "InvalidRange", get, text="bytes=10-")
    assert response["ResponseMetadata"]["HTTPHeaders"]["content-range"] == "bytes */10"
    s3.put_object(Bucket="bucket", Key="empty", Body=b"")
    fails(416, "InvalidRange", s3.get_object, Bucket="bucket", Key="empty", Range="bytes=0-")


def test_conditions(s3):
    etag = s3.put_object(Bucket="bucket", Key="cond", Body=b"1")["ETag"]
    put = {"Bucket": "bucket", "Key": "cond", "Body": b"2"}
    fails(412, "PreconditionFailed", s3.put_object, IfNoneMatch="*", **put)
    fails(412, "PreconditionFailed", s3.put_object, IfMatch='"no"', **put)
    fails(404, "NoSuchKey", s3.put_object, Bucket="bucket", Key="none", Body=b"", IfMatch=etag)
    s3.put_object(IfMatch=etag, **put)
    read = {"Bucket": "bucket", "Key": "cond"}
    etag = s3.head_object(**read)["ETag"]
    fails(304, "304", s3.get_object, IfNoneMatch=etag, **read)
    fails(412, "PreconditionFailed", s3.get_object, IfMatch='"no"', **read)
    modified = s3.head_object(**read)["LastModified"]
    fails(304, "304", s3.get_object, IfModifiedSince=modified, **read)
    s3.get_object(IfUnmodifiedSince=modified, **read)
    fails(412, "PreconditionFailed", s3.delete_object, IfMatch='"no"', **read)
    s3.delete_object(IfMatch=etag, **read)


def test_checksums(s3):
    for algorithm in ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"]:
        try:
            put = s3.put_object(Bucket="bucket", Key="sum", Body=io.BytesIO(b"abc"), ChecksumAlgorithm=algorithm)
        except Exception as error:  # CRC32C and CRC64NVME need a module that is not everywhere.
            assert "crt" in str(error), error
            continue
        assert put[f"Checksum{algorithm}"], put
        assert s3.get_object(Bucket="bucket", Key="sum", ChecksumMode="ENABLED")["Body"].read() == b"abc"
    s3.delete_object(Bucket="bucket", Key="sum")
    put = {"Bucket": "bucket", "Key": "sum", "Body": b"abc"}
    fails(400, "BadDigest", s3.put_object, ChecksumCRC32="AAAAAA==", **put)
    fails(400, "BadDigest", s3.put_object, ContentMD5="AAAAAAAAAAAAAAAAAAAAAA==", **put)
    fails(400, "InvalidDigest", s3.put_object, ContentMD5="AAAA", **put)
    fails(404, "NoSuchKey", s3.get_object, Bucket="bucket", Key="sum")


def test_listing(s3):
    names = ["l/a", "l/b/1", "l/b/2", "l/c d", "l/é", "l/z/1"]
    for name in names:
        s3.put_object(Bucket="bucket", Key=name, Body=b"x")
    for operation in ["list_objects", "list_objects_v2"]:
        pages = s3.get_paginator(operation).paginate(
            Bucket="bucket", Prefix="l/", Delimiter="/", PaginationConfig={"PageSize": 2}
        )
        seen = []
        for page in pages:
            seen += [one["Key"] for one in page.get("Contents", [])]
            seen += [one["Prefix"] for one in page.get("CommonPrefixes", [])]
        assert sorted(seen) == sorted(["l/a", "l/b/", "l/c d", "l/é", "l/z/"]), seen
    page = s3.list_objects_v2(Bucket="bucket", Prefix="l/", StartAfter="l/b/1")
    assert [one["Key"] for one in page["Contents"]] == ["l/b/2", "l/c d", "l/z/1", "l/é"]
    deleted = s3.delete_objects(Bucket="bucket", Delete={"Objects": [{"Key": name} for name in names + ["l/no"]]})
    assert len(deleted["Deleted"]) == 7 and "Errors" not in deleted
    assert s3.list_objects_v2(Bucket="bucket", Prefix="l/")["KeyCount"] == 0


def test_copies(s3):
    s3.put_object(Bucket="bucket", Key="from ä", Body=b"copied", Metadata={"a": "1"})
    source = {"Bucket": "bucket", "Key": "from ä"}
    s3.copy_object(Bucket="bucket", Key="to", CopySource=source)
    s3.delete_object(Bucket="bucket", Key="from ä")
    got = s3.get_object(Bucket="bucket", Key="to")
    assert got["Body"].read() == b"copied" and got["Metadata"] == {"a": "1"}
    same = {"Bucket": "bucket", "Key": "to", "CopySource": {"Bucket": "bucket", "Key": "to"}}
    fails(400, "InvalidRequest", s3.copy_object, **same)
    s3.copy_object(MetadataDirective="REPLACE", Metadata={"b": "2"}, **same)
    got = s3.get_object(Bucket="bucket", Key="to")
    assert got["Body"].read() == b"copied" and got["Metadata"] == {"b": "2"}
    fails(404, "NoSuchKey", s3.copy_object, Bucket="bucket", Key="x", CopySource=source)


def test_uploads(s3):
    target = {"Bucket": "bucket", "Key": "parts"}
    parts = [os.urandom(5 * MIB), os.urandom(5 * MIB + 1), b"last"]
    upload = s3.create_multipart_upload(Metadata={"m": "1"}, **target)["UploadId"]
    assert s3.list_parts(UploadId=upload, **target).get("Parts", []) == []
    etags = []
    for number, body in enumerate(parts, 1):
        s3.upload_part(UploadId=upload, PartNumber=number, Body=b"first attempt", **target)
        etags.append(s3.upload_part(UploadId=upload, PartNumber=number, Body=body, **target)["ETag"])
    listed = s3.list_parts(UploadId=upload, **target)["Parts"]
    assert [(one["PartNumber"], one["ETag"]) for one in listed] == list(enumerate(etags, 1))
    assert [one["UploadId"] for one in s3.list_multipart_uploads(Bucket="bucket")["Uploads"]] == [upload]
    named = [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(etags, 1)]

    def complete(named, **more):
        return s3.complete_multipart_upload(UploadId=upload, MultipartUpload={"Parts": named}, **target, **more)

    fails(400, "InvalidPartOrder", complete, named=named[::-1])
    fails(400, "InvalidPart", complete, named=[{"PartNumber": 1, "ETag": etags[1]}])
    s3.put_object(Body=b"old", **target)
    fails(412, "PreconditionFailed", complete, named=named, IfNoneMatch="*")
    done = complete(named)
    digests = b"".join(hashlib.md5(body).digest() for body in parts)
    assert done["ETag"] == f'"{hashlib.md5(digests).hexdigest()}-3"'
    assert complete(named)["ETag"] == done["ETag"]
    got = s3.get_object(**target)
    assert got["Body"].read() == b"".join(parts) and got["Metadata"] == {"m": "1"}
    part = s3.get_object(PartNumber=2, **target)
    assert part["Body"].read() == parts[1] and part["PartsCount"] == 3
    edge = s3.get_object(Range=f"bytes={5 * MIB - 2}-{5 * MIB + 1}", **target)["Body"].read()
    assert edge == parts[0][-2:] + parts[1][:2]
    upload = s3.create_multipart_upload(Bucket="bucket", Key="small")["UploadId"]
    etags = [
        s3.upload_part(Bucket="bucket", Key="small", UploadId=upload, PartNumber=number, Body=b"x")["ETag"]
        for number in [1, 2]
    ]
    named = {"Parts": [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(etags, 1)]}
    small = {"Bucket": "bucket", "Key": "small", "UploadId": upload}
    fails(400, "EntityTooSmall", s3.complete_multipart_upload, MultipartUpload=named, **small)
    s3.abort_multipart_upload(**small)
    fails(404, "NoSuchUpload", s3.upload_part, PartNumber=1, Body=b"x", **small)
    copied = {"Bucket": "bucket", "Key": "copied parts"}
    upload = s3.create_multipart_upload(**copied)["UploadId"]
    part = s3.upload_part_copy(
        UploadId=upload, PartNumber=1, CopySource=target, CopySourceRange=f"bytes=1-{5 * MIB}", **copied
    )["CopyPartResult"]
    named = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    s3.complete_multipart_upload(UploadId=upload, MultipartUpload=named, **copied)
    assert s3.get_object(**copied)["Body"].read() == parts[0][1:] + parts[1][:1]


def test_transfers(s3):
    body = os.urandom(20 * MIB)
    s3.upload_fileobj(io.BytesIO(body), "bucket", "transfer")
    into = io.BytesIO()
    s3.download_fileobj("bucket", "transfer", into)
    assert into.getvalue() == body


def test_versions(s3):
    s3.create_bucket(Bucket="versions")
    assert "Status" not in s3.get_bucket_versioning(Bucket="versions")
    s3.put_object(Bucket="versions", Key="a", Body=b"0")
    s3.put_bucket_versioning(Bucket="versions", VersioningConfiguration={"Status": "Enabled"})
    assert s3.get_bucket_versioning(Bucket="versions")["Status"] == "Enabled"
    ids = [s3.put_object(Bucket="versions", Key="a", Body=b"%d" % one)["VersionId"] for one in (1, 2)]
    for body, version in ((b"0", "null"), (b"1", ids[0]), (b"2", ids[1])):
        got = s3.get_object(Bucket="versions", Key="a", VersionId=version)
        assert (got["Body"].read(), got["VersionId"]) == (body, version)
    marker = s3.delete_object(Bucket="versions", Key="a")
    assert marker["DeleteMarker"]
    fails(404, "NoSuchKey", s3.get_object, Bucket="versions", Key="a")
    fails(404, "404", s3.head_object, Bucket="versions", Key="a")
    pages = s3.get_paginator("list_object_versions").paginate(
        Bucket="versions", PaginationConfig={"PageSize": 1}
    )
    pages = list(pages)
    assert len(pages) == 4
    shown = [one["VersionId"] for page in pages for one in page.get("Versions", [])]
    assert shown == [ids[1], ids[0], "null"]
    assert pages[0]["DeleteMarkers"][0]["VersionId"] == marker["VersionId"]
    s3.delete_object(Bucket="versions", Key="a", VersionId=marker["VersionId"])
    s3.copy_object(
        Bucket="versions", Key="a", CopySource={"Bucket": "versions", "Key": "a", "VersionId": "null"}
    )
    assert s3.get_object(Bucket="versions", Key="a")["Body"].read() == b"0"
    fails(409, "BucketNotEmpty", s3.delete_bucket, Bucket="versions")
    boto3.resource(
        "s3",
        endpoint_url=s3.meta.endpoint_url,
        aws_access_key_id="tester",
        aws_secret_access_key=SECRET_KEY,
        region_name="us-east-1",
    ).Bucket("versions").object_versions.delete()
    s3.delete_bucket(Bucket="versions")


def test_cors(s3):
    rule = {"AllowedOrigins": ["https://a"], "AllowedMethods": ["GET"], "MaxAgeSeconds": 5}
    fails(404, "NoSuchCORSConfiguration", s3.get_bucket_cors, Bucket="bucket")
    s3.put_bucket_cors(Bucket="bucket", CORSConfiguration={"CORSRules": [rule]})
    assert s3.get_bucket_cors(Bucket="bucket")["CORSRules"] == [rule]
    s3.put_object(Bucket="bucket", Key="page", Body=b"x")
    url = s3.generate_presigned_url("get_object", Params={"Bucket": "bucket", "Key": "page"})
    answer = urllib.request.urlopen(urllib.request.Request(url, headers={"Origin": "https://a"}))
    assert answer.headers["Access-Control-Allow-Origin"] == "https://a"
    s3.delete_bucket_cors(Bucket="bucket")
    s3.delete_object(Bucket="bucket", Key="page")


def test_lifecycle(s3):
    fails(404, "NoSuchLifecycleConfiguration", s3.get_bucket_lifecycle_configuration, Bucket="bucket")
    old = {"NoncurrentDays": 10, "NewerNoncurrentVersions": 3}
    both = {"And": {"Prefix": "a/", "Tags": [{"Key": "k", "Value": "v"}], "ObjectSizeGreaterThan": 5}}
    uploads = {"DaysAfterInitiation": 7}
    rules = [
        {"ID": "logs", "Status": "Enabled", "Filter": {"Prefix": "logs/"}, "Expiration": {"Days": 30}},
        {"ID": "old", "Status": "Enabled", "Filter": {}, "NoncurrentVersionExpiration": old},
        {"ID": "both", "Status": "Disabled", "Filter": both, "Expiration": {"Days": 1}},
        {"ID": "uploads", "Status": "Enabled", "Prefix": "", "AbortIncompleteMultipartUpload": uploads},
    ]

    def put(rules):
        return s3.put_bucket_lifecycle_configuration(Bucket="bucket", LifecycleConfiguration={"Rules": rules})

    put(rules)
    assert s3.get_bucket_lifecycle_configuration(Bucket="bucket")["Rules"] == rules
    written = s3.put_object(Bucket="bucket", Key="logs/1", Body=b"x")
    assert 'rule-id="logs"' in written["Expiration"]
    assert s3.head_object(Bucket="bucket", Key="logs/1")["Expiration"] == written["Expiration"]
    assert s3.get_object(Bucket="bucket", Key="logs/1")["Expiration"] == written["Expiration"]
    assert "Expiration" not in s3.put_object(Bucket="bucket", Key="other", Body=b"x")
    moved = {**rules[0], "Transitions": [{"Days": 1, "StorageClass": "GLACIER"}]}
    fails(501, "NotImplemented", put, rules=[moved])
    fails(400, "InvalidArgument", put, rules=[rules[0], rules[0]])
    fails(400, "InvalidArgument", put, rules=[{**rules[0], "Expiration": {"Days": 0}}])
    assert s3.get_bucket_lifecycle_configuration(Bucket="bucket")["Rules"] == rules
    s3.delete_bucket_lifecycle(Bucket="bucket")
    fails(404, "NoSuchLifecycleConfiguration", s3.get_bucket_lifecycle_configuration, Bucket="bucket")


def test_public_buckets(s3):
    s3.create_bucket(Bucket="public")
    s3.put_object(Bucket="public", Key="open/a", Body=b"open")
    s3.put_object(Bucket="public", Key="closed", Body=b"closed")
    visitor = client(s3.meta.endpoint_url, signature_version=UNSIGNED)
    fails(403, "AccessDenied", visitor.get_object, Bucket="public", Key="open/a")
    fails(404, "NoSuchBucketPolicy", s3.get_bucket_policy, Bucket="public")
    statement = {
        "Effect": "Allow",
        "Principal": "*",
        "Action": "s3:GetObject",
        "Resource": "arn:aws:s3:::public/open/*",
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    s3.put_bucket_policy(Bucket="public", Policy=policy)
    assert s3.get_bucket_policy(Bucket="public")["Policy"] == policy
    assert s3.get_bucket_policy_status(Bucket="public")["PolicyStatus"]["IsPublic"]
    assert visitor.get_object(Bucket="public", Key="open/a")["Body"].read() == b"open"
    assert visitor.head_object(Bucket="public", Key="open/a")["ContentLength"] == 4
    fails(403, "AccessDenied", visitor.get_object, Bucket="public", Key="closed")
    fails(403, "AccessDenied", visitor.get_object, Bucket="public", Key="open/missing")
    fails(403, "AccessDenied", visitor.list_objects_v2, Bucket="public")
    fails(403, "403", visitor.head_bucket, Bucket="public")
    fails(403, "AccessDenied", visitor.put_object, Bucket="public", Key="open/b", Body=b"")
    fails(403, "AccessDenied", visitor.delete_object, Bucket="public", Key="open/a")
    fails(403, "AccessDenied", visitor.list_buckets)
    denying = policy.replace("Allow", "Deny")
    fails(501, "NotImplemented", s3.put_bucket_policy, Bucket="public", Policy=denying)
    fails(400, "MalformedPolicy", s3.put_bucket_policy, Bucket="public", Policy="{}")

    block = dict.fromkeys(["BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"], True)
    fails(404, "NoSuchPublicAccessBlockConfiguration", s3.get_public_access_block, Bucket="public")
    s3.put_public_access_block(Bucket="public", PublicAccessBlockConfiguration=block)
    assert s3.get_public_access_block(Bucket="public")["PublicAccessBlockConfiguration"] == block
    fails(403, "AccessDenied", visitor.get_object, Bucket="public", Key="open/a")
    fails(403, "AccessDenied", s3.put_bucket_policy, Bucket="public", Policy=policy)
    s3.delete_public_access_block(Bucket="public")
    s3.delete_bucket_policy(Bucket="public")

    def permissions():
        return [one["Permission"] for one in s3.get_bucket_acl(Bucket="public")["Grants"]]

    assert permissions() == ["FULL_CONTROL"]
    s3.put_bucket_acl(Bucket="public", ACL="public-read")
    assert permissions() == ["FULL_CONTROL", "READ"]
    assert [one["Key"] for one in visitor.list_objects_v2(Bucket="public")["Contents"]] == ["closed", "open/a"]
    fails(404, "NoSuchKey", visitor.get_object, Bucket="public", Key="open/missing")
    grants = s3.get_object_acl(Bucket="public", Key="closed")["Grants"]
    assert grants[1]["Grantee"]["URI"] == "http://acs.amazonaws.com/groups/global/AllUsers", grants
    s3.put_bucket_acl(Bucket="public", ACL="private")
    fails(403, "AccessDenied", visitor.get_object, Bucket="public", Key="closed")
    put = {"Bucket": "public", "Key": "b", "Body": b""}
    fails(400, "AccessControlListNotSupported", s3.put_object, ACL="public-read", **put)
    s3.put_object(ACL="bucket-owner-full-control", **put)
    rules = s3.get_bucket_ownership_controls(Bucket="public")["OwnershipControls"]["Rules"]
    assert rules == [{"ObjectOwnership": "BucketOwnerEnforced"}]
    s3.put_bucket_ownership_controls(Bucket="public", OwnershipControls={"Rules": rules})


def test_configurations(s3):
    bucket = {"Bucket": "bucket"}
    fails(404, "NoSuchTagSet", s3.get_bucket_tagging, **bucket)
    tags = [{"Key": "team", "Value": "ä b"}]
    s3.put_bucket_tagging(Tagging={"TagSet": tags}, **bucket)
    assert s3.get_bucket_tagging(**bucket)["TagSet"] == tags
    s3.delete_bucket_tagging(**bucket)
    fails(404, "ServerSideEncryptionConfigurationNotFoundError", s3.get_bucket_encryption, **bucket)
    fails(404, "NoSuchWebsiteConfiguration", s3.get_bucket_website, **bucket)
    fails(404, "ObjectLockConfigurationNotFoundError", s3.get_object_lock_configuration, **bucket)
    fails(404, "ReplicationConfigurationNotFoundError", s3.get_bucket_replication, **bucket)
    assert "Status" not in s3.get_bucket_accelerate_configuration(**bucket)
    assert "LoggingEnabled" not in s3.get_bucket_logging(**bucket)
    assert "TopicConfigurations" not in s3.get_bucket_notification_configuration(**bucket)
    assert s3.get_bucket_request_payment(**bucket)["Payer"] == "BucketOwner"
    payment = {"Payer": "Requester"}
    fails(501, "NotImplemented", s3.put_bucket_request_payment, RequestPaymentConfiguration=payment, **bucket)


def test_signatures(s3):
    wrong = client(s3.meta.endpoint_url, secret="wrong")
    fails(403, "SignatureDoesNotMatch", wrong.list_buckets)
    unknown = client(s3.meta.endpoint_url, name="unknown", secret="unknown")
    fails(403, "SignatureDoesNotMatch" if IS_ENDPOINT else "InvalidAccessKeyId", unknown.list_buckets)
    s3.put_object(Bucket="bucket", Key="signed", Body=b"by url")
    s3 = client(s3.meta.endpoint_url, signature_version="s3v4")
    url = s3.generate_presigned_url("get_object", Params={"Bucket": "bucket", "Key": "signed"})
    assert urllib.request.urlopen(url).read() == b"by url"
    url = s3.generate_presigned_url("put_object", Params={"Bucket": "bucket", "Key": "signed"})
    urllib.request.urlopen(urllib.request.Request(url, data=b"new", method="PUT"))
    assert s3.get_object(Bucket="bucket", Key="signed")["Body"].read() == b"new"


def test_forms(s3):
    post = s3.generate_presigned_post(
        "bucket", "form", Fields={"Content-Type": "text/y"}, Conditions=[{"Content-Type": "text/y"}]
    )
    fields = "".join(
        f'--edge\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in post["fields"].items()
    )
    file = '--edge\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\nposted\r\n--edge--\r\n'
    headers = {"Content-Type": "multipart/form-data; boundary=edge"}
    urllib.request.urlopen(urllib.request.Request(post["url"], (fields + file).encode(), headers))
    got = s3.get_object(Bucket="bucket", Key="form")
    assert got["Body"].read() == b"posted" and got["ContentType"] == "text/y", got["ContentType"]


def client(endpoint, name="tester", secret=SECRET_KEY, **more):
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=name,
        aws_secret_access_key=secret,
        region_name="us-east-1",
        config=Config(retries={"max_attempts": 1}, **more),
    )


def run(s3):
    s3.create_bucket(Bucket="bucket")
    failures = 0
    for name, test in [one for one in globals().items() if one[0].startswith("test_")]:
        try:
            test(s3)
        except Exception as error:
            failures += 1
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
    return 1 if failures else 0


def main():
    if IS_ENDPOINT:
        return run(client(sys.argv[1]))
    server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        return run(client(f"http://127.0.0.1:{int(server.stdout.readline())}"))
    finally:
        server.stdin.close()
        server.wait()


if __name__ == "__main__":
    sys.exit(main())
