"""rclone against the S3 gateway."""

import json
import sys

from s3_checks import (
    ACCESS_KEY, BUCKET, ENDPOINT, LARGE, MANY, MIB, REGION, SECRET_KEY, command, content, equal, folder_of_names, head,
    listed, run, same, store, store_many, stored, tree,
)

# A remote that is described by variables only.
REMOTE = {
    "RCLONE_CONFIG": "/dev/null",
    "RCLONE_CONFIG_Z_TYPE": "s3",
    "RCLONE_CONFIG_Z_PROVIDER": "Other",
    "RCLONE_CONFIG_Z_ENDPOINT": ENDPOINT,
    "RCLONE_CONFIG_Z_REGION": REGION,
    "RCLONE_CONFIG_Z_ACCESS_KEY_ID": ACCESS_KEY,
    "RCLONE_CONFIG_Z_SECRET_ACCESS_KEY": SECRET_KEY,
    "RCLONE_S3_UPLOAD_CUTOFF": "10M",
}
URL = f"z:{BUCKET}"


def rclone(*words, **more):
    return command("rclone", "--retries", "1", *words, **REMOTE, **more)


def test_buckets():
    rclone("mkdir", "z:made-by-rclone")
    assert b" made-by-rclone\n" in rclone("lsd", "z:")
    rclone("rcat", "z:made-by-rclone/a/b", input=b"x")
    rclone("rmdir", "z:made-by-rclone", code=1)
    rclone("purge", "z:made-by-rclone")
    assert b" made-by-rclone\n" not in rclone("lsd", "z:")


def test_names(folder):
    files = folder_of_names(folder / "from")
    rclone("copy", folder / "from", f"{URL}/names")
    equal({key.removeprefix("names/"): stored(key) for key in listed("names/")}, files)
    rclone("check", "--download", folder / "from", f"{URL}/names")
    rclone("check", folder / "from", f"{URL}/names")
    rclone("sync", f"{URL}/names", folder / "to")
    equal(tree(folder / "to"), files)


def test_large(folder):
    body = content(LARGE)
    (folder / "large").write_bytes(body)
    rclone("copyto", folder / "large", f"{URL}/large")
    same(stored("large"), body)
    assert "-" in head("large")["ETag"]
    same(rclone("cat", f"{URL}/large"), body)
    same(rclone("cat", "--offset", 5 * MIB - 3, "--count", 7, f"{URL}/large"), body[5 * MIB - 3 : 5 * MIB + 4])
    rclone("check", "--download", folder, URL, "--include", "large")
    rclone("rcat", f"{URL}/streamed", input=body)
    same(stored("streamed"), body)
    # Above the cutoff the gateway's parts are copied one by one.
    rclone("copyto", "--s3-copy-cutoff", "8M", f"{URL}/large", f"{URL}/copied")
    same(stored("copied"), body)


def test_sync(folder):
    (folder / "a").write_bytes(b"1")
    (folder / "b").write_bytes(b"2")
    rclone("sync", folder, f"{URL}/sync")
    (folder / "a").write_bytes(b"changed")
    (folder / "b").unlink()
    rclone("sync", folder, f"{URL}/sync")
    equal(listed("sync/"), ["sync/a"])
    same(stored("sync/a"), b"changed")
    # Times are metadata: nothing is left to do, and a changed time alone copies the object onto itself.
    assert b"mtime" in json.dumps(head("sync/a")["Metadata"]).encode()
    rclone("touch", "--timestamp", "2020-01-02T03:04:05", f"{URL}/sync/a")
    assert b"2020-01-02 03:04:05" in rclone("lsl", f"{URL}/sync")
    same(stored("sync/a"), b"changed")


def test_moves_and_removals():
    store("from/x y", b"1", ContentType="text/x")
    store("from/deep/z", b"2")
    rclone("moveto", f"{URL}/from", f"{URL}/to")
    equal((listed("from/"), listed("to/")), ([], ["to/deep/z", "to/x y"]))
    equal(head("to/x y")["ContentType"], "text/x")
    rclone("deletefile", f"{URL}/to/x y")
    equal(listed("to/"), ["to/deep/z"])


def test_listing():
    store_many("many/")
    found = json.loads(rclone("lsjson", "--hash", f"{URL}/many"))
    equal(len(found), MANY)
    equal(len(rclone("lsf", "--fast-list", "-R", "--s3-list-chunk", 300, f"{URL}/many").splitlines()), MANY)
    equal(len(rclone("lsf", "--s3-list-version", 1, f"{URL}/many").splitlines()), MANY)
    rclone("delete", f"{URL}/many")
    equal(listed("many/"), [])


def test_versions():
    rclone("mkdir", "z:versions-by-rclone")
    rclone("backend", "versioning", "z:versions-by-rclone", "Enabled")
    for body in (b"1", b"22"):
        rclone("rcat", "z:versions-by-rclone/a", input=body)
    equal(len(rclone("lsf", "--s3-versions", "z:versions-by-rclone").splitlines()), 2)
    rclone("cleanup", "z:versions-by-rclone")
    rclone("backend", "cleanup-hidden", "z:versions-by-rclone")
    equal(len(rclone("lsf", "--s3-versions", "z:versions-by-rclone").splitlines()), 1)


def test_uploads_are_listed_and_aborted():
    rclone("backend", "list-multipart-uploads", URL)
    rclone("backend", "cleanup", "-o", "max-age=0s", URL)


if __name__ == "__main__":
    sys.exit(run(globals()))
