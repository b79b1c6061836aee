"""What the scripts of S3 clients share: the gateway, files to transfer, and boto3, which verifies what a client has stored.

The argument of a script is the gateway's endpoint; the credentials are in the environment. Each function of the name
`test_*` is one case. A script ends with a code other than zero if a case fails.
"""

import hashlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import boto3

ENDPOINT = sys.argv[1] if len(sys.argv) > 1 else os.environ["AWS_ENDPOINT_URL"]
ACCESS_KEY = os.environ["AWS_ACCESS_KEY_ID"]
SECRET_KEY = os.environ["AWS_SECRET_ACCESS_KEY"]
REGION = os.environ["AWS_DEFAULT_REGION"]
BUCKET = "clients"
MIB = 1 << 20
# Programs that take a bundle of certificates from it want it for their own transport too.
os.environ.pop("AWS_CA_BUNDLE", None)
# More than a part of any client, and no multiple of one.
LARGE = 21 * MIB + 4321
# More than a page of a listing.
MANY = 1100

# What the encodings of URLs, of XML and of signatures differ in.
NAMES = [
    "plain.txt",
    "with space.txt",
    "plus+sign.txt",
    "per%20cent.txt",
    "ünï/日本 語.txt",
    "quote's & <angle>.txt",
    "tilde~(1)!=@,;$.txt",
]

_s3 = None


def s3():
    """A client of boto3, the reference."""
    global _s3
    if _s3 is None:
        _s3 = boto3.client("s3", endpoint_url=ENDPOINT)
    return _s3


def content(size, seed=0):
    """Bytes without a period."""
    return random.Random(f"{size} {seed}").randbytes(size)


def store(key, body, **more):
    s3().put_object(Bucket=BUCKET, Key=key, Body=body, **more)


def store_many(prefix, count=MANY):
    """Stores small objects below a prefix; returns their keys."""
    keys = [f"{prefix}{number:05}" for number in range(count)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: store(key, key.encode()), keys))
    return keys


def stored(key):
    return s3().get_object(Bucket=BUCKET, Key=key)["Body"].read()


def head(key):
    return s3().head_object(Bucket=BUCKET, Key=key)


def listed(prefix):
    """All keys below a prefix."""
    pages = s3().get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
    return [one["Key"] for page in pages for one in page.get("Contents", [])]


def same(got, expected):
    """Compares contents without printing them."""
    if got != expected:
        text = f"{len(got)} bytes of SHA-256 {hashlib.sha256(got).hexdigest()[:12]}"
        raise AssertionError(f"{text} in place of {len(expected)}")


def equal(got, expected):
    if got != expected:
        raise AssertionError(f"{str(got)[:400]} in place of {str(expected)[:400]}")


def fails(kinds, call, *arguments, **named):
    """Whether the call raises an error of these kinds."""
    try:
        call(*arguments, **named)
    except kinds as error:
        return error
    raise AssertionError("the call does not fail")


def command(*words, input=None, code=0, **environment):
    """Runs a program; returns its output as bytes."""
    words = [str(word) for word in words]
    # The programs of the Python packages are beside the interpreter.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    variables = {**os.environ, "PATH": path, **{name: str(value) for name, value in environment.items()}}
    ended = subprocess.run(words, input=input, capture_output=True, env=variables, check=False)
    if ended.returncode != code:
        text = (ended.stderr + ended.stdout).decode(errors="replace").strip()
        raise AssertionError(f"{' '.join(words)} ends with {ended.returncode}: {text[-1500:]}")
    return ended.stdout


def tree(folder):
    """The files below a folder, by their relative paths."""
    folder = Path(folder)
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def folder_of_names(folder):
    """Writes a file of each name; returns them as `tree` does."""
    for name in NAMES:
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content(1000, name))
    return tree(folder)


def run(cases):
    """Runs the cases of a script, each with a folder of its own if it has a parameter; returns the exit code."""
    s3().create_bucket(Bucket=BUCKET)
    only = sys.argv[2:]
    failures = 0
    for name, test in list(cases.items()):
        if not name.startswith("test_") or (only and name not in only):
            continue
        folder = Path(tempfile.mkdtemp(prefix="zerohop-client-"))
        try:
            test(*[folder] * test.__code__.co_argcount)
        except Exception as error:
            failures += 1
            traceback.print_exc()
            print(f"Error: {name}: {type(error).__name__}: {error}", file=sys.stderr)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return 1 if failures else 0
