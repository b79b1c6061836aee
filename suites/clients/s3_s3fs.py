"""The test suite of s3fs, from its source package, against the gateway in place of the server that it starts itself.

The argument is the gateway's endpoint. More arguments are those of pytest.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import types
from importlib.metadata import version
from pathlib import Path

import boto3
import botocore.client
import pytest
from botocore.exceptions import ClientError

ENDPOINT = sys.argv[1]

# Tests of what the gateway does not have, or of the mock.
LEFT_OUT = {
    "test_write_small_with_acl": "access control lists",
    "test_xattr": "access control lists",
    "test_info": "a listing has the type of the checksum, which the mock has not",
    "test_rm": "a quiet bulk delete lists no names, as in S3; the mock does not know `Quiet`",
    "test_bucket_exists": "buckets for all clients",
    "test_write_small_secure": "server-side encryption",
    "test_write_large_secure": "server-side encryption",
}


class ForeignServer:
    """Stands for the mock server, which the suite starts."""

    def __init__(self, *_, **__):
        pass

    def start(self):
        pass

    def stop(self):
        pass


class GatewaySuite:
    """A plug-in of pytest: gives the suite the gateway, and empties it where the suite resets its server."""

    def pytest_collection_modifyitems(self, config, items):
        for item in items:
            for module in (item.module, sys.modules.get("s3fs.tests.derived.s3fs_fixtures")):
                if hasattr(module, "endpoint_uri"):
                    module.endpoint_uri = ENDPOINT + "/"
        left_out = [item for item in items if item.originalname in LEFT_OUT]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]

    @pytest.fixture(autouse=True, scope="class")
    def _empty_before_class(self):
        empty()

    @pytest.fixture(autouse=True)
    def _empty_before_test(self, request):
        # The derived classes share their buckets.
        if request.cls is None:
            empty()


def empty():
    resource = boto3.resource("s3", endpoint_url=ENDPOINT)
    for bucket in resource.buckets.all():
        bucket.object_versions.delete()
        bucket.delete()


def tolerate_missing_policies():
    """Each test's set-up gives one bucket a policy, which matters to the tests of encryption only."""
    call = botocore.client.BaseClient._make_api_call

    def make_api_call(client, operation, arguments):
        try:
            return call(client, operation, arguments)
        except ClientError as error:
            if operation != "PutBucketPolicy" or error.response["Error"]["Code"] != "NotImplemented":
                raise

    botocore.client.BaseClient._make_api_call = make_api_call


def stand_in_for_mock():
    """The suite imports its mock by name."""
    mock = types.ModuleType("moto")
    mock.__version__ = "5.2.5"
    server = types.ModuleType("moto.moto_server")
    threaded = types.ModuleType("moto.moto_server.threaded_moto_server")
    threaded.ThreadedMotoServer = ForeignServer
    sys.modules |= {one.__name__: one for one in (mock, server, threaded)}


def main():
    os.environ.pop("AWS_CA_BUNDLE", None)
    folder = Path(tempfile.mkdtemp(prefix="zerohop-s3fs-"))
    try:
        name = f"s3fs=={version('s3fs')}"
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "s3fs", "--dest", folder, name]
        subprocess.run(pip, check=True)
        [archive] = folder.glob("*.tar.gz")
        with tarfile.open(archive) as source:
            source.extractall(folder, filter="data")
        [source] = [one for one in folder.iterdir() if one.is_dir()]
        # The installed package is the tested one: its tests are put beside it by their path only.
        import s3fs

        s3fs.__path__.append(str(source / "s3fs"))
        stand_in_for_mock()
        tolerate_missing_policies()
        tests = source / "s3fs" / "tests"
        # S3 has no bucket with such a name; the mock has.
        place = tests / "test_s3fs.py"
        place.write_text(place.read_text().replace("test1_bucket", "test1-bucket"))
        words = ["-q", "-p", "no:cacheprovider", "-W", "ignore", "--assert=plain", "--import-mode=importlib", "--tb=short", *sys.argv[2:]]
        return pytest.main([*words, str(tests)], plugins=[GatewaySuite()])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
