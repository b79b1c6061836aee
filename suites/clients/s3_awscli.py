"""`aws s3` and `aws s3api` against the S3 gateway."""

import json
import sys
import urllib.request

from s3_checks import (
    BUCKET, ENDPOINT, LARGE, MANY, command, content, equal, folder_of_names, head, listed, run, same, store, store_many,
    stored, tree,
)

URL = f"s3://{BUCKET}"


def aws(*words, **more):
    return command("aws", "--endpoint-url", ENDPOINT, *words, **more)


def api(*words, **more):
    text = aws("s3api", *words, "--bucket", BUCKET, "--output", "json", **more)
    return json.loads(text) if text.strip() else {}


def test_buckets():
    aws("s3", "mb", "s3://made-by-aws")
    assert b"made-by-aws" in aws("s3", "ls")
    aws("s3", "cp", "-", "s3://made-by-aws/one", input=b"x")
    aws("s3", "rb", "s3://made-by-aws", code=1)
    aws("s3", "rb", "--force", "s3://made-by-aws")
    assert b"made-by-aws" not in aws("s3", "ls")


def test_names(folder):
    """A folder there and back, with names that need encoding."""
    files = folder_of_names(folder / "from")
    aws("s3", "cp", "--recursive", folder / "from", f"{URL}/names/")
    equal({key.removeprefix("names/"): stored(key) for key in listed("names/")}, files)
    aws("s3", "sync", f"{URL}/names/", folder / "to")
    equal(tree(folder / "to"), files)
    text = aws("s3", "ls", "--recursive", f"{URL}/names/").decode()
    assert all(f" names/{name}\n" in text for name in files), text


def test_large(folder):
    """Uploads in parts, and downloads in ranges."""
    body = content(LARGE)
    (folder / "large").write_bytes(body)
    aws("s3", "cp", folder / "large", f"{URL}/large")
    same(stored("large"), body)
    assert head("large")["ETag"].endswith('-3"'), head("large")["ETag"]
    aws("s3", "cp", f"{URL}/large", folder / "back")
    same((folder / "back").read_bytes(), body)
    aws("s3", "cp", "-", f"{URL}/streamed", input=body)
    same(aws("s3", "cp", f"{URL}/streamed", "-"), body)
    aws("s3", "cp", f"{URL}/large", f"{URL}/copied")
    same(stored("copied"), body)


def test_sync(folder):
    """A sync carries changes and removals only."""
    (folder / "a").write_bytes(b"1")
    (folder / "b").write_bytes(b"2")
    aws("s3", "sync", folder, f"{URL}/sync/")
    equal(aws("s3", "sync", folder, f"{URL}/sync/"), b"")
    (folder / "a").write_bytes(b"changed")
    (folder / "b").unlink()
    aws("s3", "sync", "--delete", folder, f"{URL}/sync/")
    equal(listed("sync/"), ["sync/a"])
    same(stored("sync/a"), b"changed")


def test_copies_and_moves():
    store("from/x y", b"1", Metadata={"one": "1"}, ContentType="text/x")
    aws("s3", "mv", f"{URL}/from/x y", f"{URL}/to/x+y")
    equal(listed("from/"), [])
    same(stored("to/x+y"), b"1")
    equal((head("to/x+y")["Metadata"], head("to/x+y")["ContentType"]), ({"one": "1"}, "text/x"))
    aws("s3", "cp", "--recursive", f"{URL}/to/", f"{URL}/again/")
    equal(listed("again/"), ["again/x+y"])


def test_listing_and_removal():
    store_many("many/")
    store("many/sub/1", b"")
    text = aws("s3", "ls", f"{URL}/many/").decode()
    equal(len(text.splitlines()), MANY + 1)
    assert "PRE sub/" in text
    equal(len(api("list-objects-v2", "--prefix", "many/", "--page-size", "300")["Contents"]), MANY + 1)
    equal(len(api("list-objects", "--prefix", "many/")["Contents"]), MANY + 1)
    aws("s3", "rm", "--recursive", "--exclude", "00001", f"{URL}/many/")
    equal(listed("many/"), ["many/00001"])


def test_metadata_and_conditions(folder):
    (folder / "one").write_bytes(b"0123456789")
    put = ["put-object", "--key", "meta", "--body", folder / "one"]
    etag = api(*put, "--metadata", "a=1,b=two words", "--content-type", "text/y", "--tagging", "t=1")["ETag"]
    got = api("get-object", "--key", "meta", "--range", "bytes=2-4", folder / "out")
    equal(((folder / "out").read_bytes(), got["ContentRange"]), (b"234", "bytes 2-4/10"))
    equal((got["Metadata"], got["ContentType"]), ({"a": "1", "b": "two words"}, "text/y"))
    equal(api("get-object-tagging", "--key", "meta")["TagSet"], [{"Key": "t", "Value": "1"}])
    api(*put, "--if-none-match", "*", code=255)
    api(*put, "--if-match", '"0123"', code=255)
    api(*put, "--if-match", etag, "--checksum-algorithm", "SHA256")
    equal(api("head-object", "--key", "meta", "--checksum-mode", "ENABLED")["ChecksumType"], "FULL_OBJECT")


def test_versions():
    aws("s3", "mb", "s3://versions-by-aws")
    bucket = ["--bucket", "versions-by-aws"]
    aws("s3api", "put-bucket-versioning", *bucket, "--versioning-configuration", "Status=Enabled")
    for body in (b"1", b"2"):
        aws("s3", "cp", "-", "s3://versions-by-aws/a", input=body)
    aws("s3", "rm", "s3://versions-by-aws/a")
    found = json.loads(aws("s3api", "list-object-versions", *bucket, "--output", "json"))
    equal((len(found["Versions"]), len(found["DeleteMarkers"])), (2, 1))


def test_presigned():
    store("pre signed", b"signed")
    url = aws("s3", "presign", f"{URL}/pre signed").decode().strip()
    same(urllib.request.urlopen(url).read(), b"signed")


if __name__ == "__main__":
    sys.exit(run(globals()))
