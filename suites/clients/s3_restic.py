"""restic against the S3 gateway: backups, a restore that is compared, a prune."""

import json
import sys

from s3_checks import BUCKET, ENDPOINT, LARGE, command, content, equal, folder_of_names, listed, run, tree


def restic(folder, *words, **more):
    repository = f"s3:{ENDPOINT}/{BUCKET}/restic"
    variables = {"RESTIC_REPOSITORY": repository, "RESTIC_PASSWORD": "secret", "RESTIC_CACHE_DIR": folder / "cache"}
    return command("restic", *words, **variables, **more)


def test_backups(folder):
    source = folder / "source"
    folder_of_names(source)
    (source / "large").write_bytes(content(LARGE))
    restic(folder, "init")
    restic(folder, "init", code=1)
    restic(folder, "backup", source)
    first = tree(source)
    (source / "plain.txt").unlink()
    (source / "large").write_bytes(content(LARGE, 1))
    (source / "added").write_bytes(b"added")
    restic(folder, "backup", source)
    snapshots = json.loads(restic(folder, "snapshots", "--json"))
    equal(len(snapshots), 2)
    restic(folder, "check", "--read-data")
    for snapshot, files in zip(snapshots, (first, tree(source)), strict=True):
        target = folder / snapshot["id"]
        restic(folder, "restore", snapshot["id"], "--target", target)
        equal(tree(target / source.relative_to("/")) == files, True)
    objects = len(listed("restic/data/"))
    restic(folder, "forget", "--keep-last", 1, "--prune")
    equal(len(json.loads(restic(folder, "snapshots", "--json"))), 1)
    assert len(listed("restic/data/")) < objects
    restic(folder, "check", "--read-data")
    # The lock of each command is an object that it has removed.
    equal(listed("restic/locks/"), [])


if __name__ == "__main__":
    sys.exit(run(globals()))
