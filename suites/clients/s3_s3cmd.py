"""s3cmd against the S3 gateway."""

import sys
import urllib.request

from s3_checks import (
    ACCESS_KEY, BUCKET, ENDPOINT, LARGE, MANY, SECRET_KEY, command, content, equal, folder_of_names, head, listed, run,
    same, store, store_many, stored, tree,
)

URL = f"s3://{BUCKET}"
ADDRESS = ENDPOINT.removeprefix("http://")


def s3cmd(*words, **more):
    options = ["--no-ssl", f"--host={ADDRESS}", f"--host-bucket={ADDRESS}", "--config=/dev/null", "--no-progress"]
    return command("s3cmd", *options, f"--access_key={ACCESS_KEY}", f"--secret_key={SECRET_KEY}", *words, **more)


def test_buckets():
    s3cmd("mb", "s3://made-by-s3cmd")
    assert b"s3://made-by-s3cmd" in s3cmd("ls")
    s3cmd("rb", "s3://made-by-s3cmd")
    assert b"s3://made-by-s3cmd" not in s3cmd("ls")


def test_names(folder):
    files = folder_of_names(folder / "from")
    s3cmd("put", "--recursive", f"{folder}/from/", f"{URL}/names/")
    equal({key.removeprefix("names/"): stored(key) for key in listed("names/")}, files)
    s3cmd("sync", f"{URL}/names/", f"{folder}/to/")
    equal(tree(folder / "to"), files)


def test_large(folder):
    body = content(LARGE)
    (folder / "large").write_bytes(body)
    s3cmd("put", "--multipart-chunk-size-mb=6", folder / "large", f"{URL}/large")
    same(stored("large"), body)
    assert head("large")["ETag"].endswith('-4"')
    s3cmd("get", f"{URL}/large", folder / "back")
    same((folder / "back").read_bytes(), body)
    # Half of a file goes on where it ends.
    (folder / "half").write_bytes(body[: LARGE // 2])
    s3cmd("get", "--continue", f"{URL}/large", folder / "half")
    same((folder / "half").read_bytes(), body)
    s3cmd("put", "-", f"{URL}/streamed", input=body)
    same(stored("streamed"), body)


def test_sync(folder):
    (folder / "a").write_bytes(b"1")
    (folder / "b").write_bytes(b"2")
    s3cmd("sync", f"{folder}/", f"{URL}/sync/")
    equal(b"upload" in s3cmd("sync", f"{folder}/", f"{URL}/sync/"), False)
    (folder / "a").write_bytes(b"changed")
    (folder / "b").unlink()
    s3cmd("sync", "--delete-removed", f"{folder}/", f"{URL}/sync/")
    equal(listed("sync/"), ["sync/a"])
    same(stored("sync/a"), b"changed")


def test_copies_metadata_and_information():
    store("from/x y", b"1", Metadata={"one": "1"}, ContentType="text/x")
    s3cmd("cp", f"{URL}/from/x y", f"{URL}/to/x+y")
    same(stored("to/x+y"), b"1")
    equal((head("to/x+y")["Metadata"]["one"], head("to/x+y")["ContentType"]), ("1", "text/x"))
    s3cmd("mv", f"{URL}/from/x y", f"{URL}/moved")
    equal((listed("from/"), stored("moved")), ([], b"1"))
    s3cmd("modify", "--add-header=x-amz-meta-two: 2", "--mime-type=text/z", f"{URL}/moved")
    equal((head("moved")["Metadata"]["two"], head("moved")["ContentType"]), ("2", "text/z"))
    same(stored("moved"), b"1")
    assert b"MIME type: text/z" in s3cmd("info", f"{URL}/moved")
    assert b"Location:" in s3cmd("info", URL)


def test_listing_and_removal():
    store_many("many/")
    equal(len(s3cmd("ls", f"{URL}/many/").splitlines()), MANY)
    assert s3cmd("du", f"{URL}/many/").split()[1] == b"%d" % MANY
    s3cmd("del", "--recursive", "--force", f"{URL}/many/")
    equal(listed("many/"), [])


def test_uploads_and_urls():
    store("signed url", b"signed")
    url = s3cmd("signurl", f"{URL}/signed url", "+600").decode().strip()
    same(urllib.request.urlopen(url).read(), b"signed")
    s3cmd("multipart", URL)


if __name__ == "__main__":
    sys.exit(run(globals()))
