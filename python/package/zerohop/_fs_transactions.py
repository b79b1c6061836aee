"""Transactions of the file system: entries that are created, moved and removed together."""

from __future__ import annotations

import errno
import time
import uuid
from collections.abc import Callable
from typing import Any, Optional

from fsspec.transaction import Transaction as Gathered

import zerohop
from zerohop._entry import CONTENTS, INLINE_BYTES_MAX, PARTS_MAX, Entry, name_of, of_parts
from zerohop._fs_files import ZerohopFile
from zerohop._fs_parts import (
    ChangedError, PartsError, Place, FileWrite, above, below_file, entry_of, forget, over_directory, pages, settle,
)
from zerohop._transaction import Transaction
from zerohop._transaction_blobs import TransactionBlobs

ENTRIES_AT_ONCE = 4000
"""The highest number of entries that one transaction moves or removes; more need several."""


PUBLISH_SECONDS = 60.0
"""How long publication is retried, in seconds, while others change the same files, such as
concurrent appenders."""


def put(blobs: TransactionBlobs, name: bytes, entry: bytes, is_there: bool) -> None:
    """Adds the creation or replacement of an entry to the transaction."""
    if is_there:
        blobs.set_attributes(name, entry)
    else:
        blobs.create(name, attributes=entry)


def joined(blobs: TransactionBlobs, place: Place, there: Optional[Entry], added: Entry) -> Entry:
    """Adds an append to a file to the transaction, at its present end. Returns the new entry."""

    def blob(contents: bytes) -> tuple[tuple[bytes, int], ...]:
        name = CONTENTS + uuid.uuid4().hex.encode()
        blobs.create(name, attributes=repr(time.time()).encode())
        blobs.extend(name, contents)
        return ((name, len(contents)),)

    now, contents = time.time(), added.contents
    if there is None:
        there = Entry(0, now, b"")
    if contents is None:
        before = there.parts or (blob(there.contents) if there.contents else ())
        if len(before) >= PARTS_MAX:
            raise PartsError(place)
        return of_parts(now, before + added.parts)
    if there.contents is not None:
        whole = there.contents + contents
        return Entry(len(whole), now, whole) if len(whole) <= INLINE_BYTES_MAX else of_parts(now, blob(whole))
    *before_last, (last, size) = there.parts
    if contents and blobs.extend(last, contents) != size:
        # Others have appended since the entry was read: starts again from its present state.
        raise zerohop.ConflictError(f"{place.keyspace}/{place.path}: others append to it", "Conflict")
    return of_parts(now, (*before_last, (last, size + len(contents))))


def check_places(keyspace_of: Callable[[str], zerohop.Keyspace], files: list[FileWrite]) -> list[bool]:
    """Raises an error if a file would be below a file, or in the place of a created directory.
    Returns whether each file exists already.

    These reads are not part of the transaction: it would take almost twice as long.
    """
    names: dict[str, dict[bytes, None]] = {}
    for file in files:
        name = name_of(file.place.path)
        names.setdefault(file.place.keyspace, {}).update(dict.fromkeys((name, name + b"/", *above(name))))
    there: set[tuple[str, bytes]] = set()
    for keyspace, some in names.items():
        for page in pages(some):
            stats = keyspace_of(keyspace).blobs.stat_many(page)
            there.update((keyspace, name) for name, found in zip(page, stats) if found is not None)
    given = {(file.place.keyspace, name_of(file.place.path)) for file in files}
    for file in files:
        keyspace, name = file.place.keyspace, name_of(file.place.path)
        if (keyspace, name + b"/") in there and (keyspace, name) not in there:
            path = f"{keyspace}/{file.place.path}"
            raise FileExistsError(path) if file.exclusive else over_directory(path)
        for one in above(name):
            if one not in file.beside and ((keyspace, one) in there or (keyspace, one) in given):
                raise below_file(keyspace, one)
    return [(file.place.keyspace, name_of(file.place.path)) in there for file in files]


def publish(client: zerohop.Client, keyspace_of: Callable[[str], zerohop.Keyspace], files: list[FileWrite]) -> None:
    """Makes all these files visible, in one transaction. If that fails, their contents are
    removed."""

    def work(t: Transaction) -> list[tuple[str, bytes]]:
        replaced = []
        for place, entry, exclusive, appends, instead, _ in files:
            blobs, name = t[keyspace_of(place.keyspace)].blobs, name_of(place.path)
            there = entry_of(blobs.stat(name))
            if there is not None and exclusive:
                raise FileExistsError(f"{place.keyspace}/{place.path}")
            if instead is not None and there != instead:
                raise ChangedError
            if appends:
                entry = joined(blobs, place, there, entry)
            elif there is not None:
                replaced += [(place.keyspace, blob) for blob, _ in there.parts]
            put(blobs, name, entry.encode(), there is not None)
        return replaced

    try:
        check_places(keyspace_of, files)
        replaced = client.transact(work, timeout=PUBLISH_SECONDS)
    except PartsError:
        # They are merged into one blob, and then this is repeated.
        raise
    except zerohop.UnknownOutcomeError:
        # An entry may name them: an unreferenced blob is the lesser harm.
        raise
    except BaseException as error:
        # The same after Ctrl-C.
        if isinstance(error, Exception):
            for file in files:
                forget(keyspace_of(file.place.keyspace), [blob for blob, _ in file.entry.parts])
        raise
    if len(files) > 1:
        for file in files:
            settle(keyspace_of(file.place.keyspace), [name_of(file.place.path)])
    for keyspace, blob in replaced:
        forget(keyspace_of(keyspace), [blob])


def move_entries(client: zerohop.Client, keyspace: zerohop.Keyspace, pairs: list[tuple[bytes, bytes]]) -> None:
    """Renames each entry to a second name. An existing entry there is replaced; an entry that is
    gone by then is skipped. Raises an error if a file would be below a file, unless that is moved
    with it."""
    sources = {new: old for old, new in pairs}
    for at in range(0, len(pairs), ENTRIES_AT_ONCE):
        some = pairs[at : at + ENTRIES_AT_ONCE]

        def work(t: Transaction, some: list[tuple[bytes, bytes]] = some) -> list[bytes]:
            replaced, blobs = [], t[keyspace].blobs
            # Their present state is requested in one round.
            outer = {one for _, new in some for one in above(new)}
            blobs.stat_many((*(name for pair in some for name in pair), *outer))
            for old, new in some:
                entry, there = entry_of(blobs.stat(old)), entry_of(blobs.stat(new))
                if entry is None:
                    # Another client has removed it meanwhile.
                    continue
                for one in above(new):
                    is_moved_too = one in sources and sources[one] + new[len(one) :] == old
                    if not is_moved_too and blobs.stat(one) is not None:
                        raise below_file(keyspace.name, one)
                if there is not None:
                    replaced += [blob for blob, _ in there.parts]
                put(blobs, new, entry.encode(), there is not None)
                blobs.delete(old)
            return replaced

        replaced = client.transact(work)
        settle(keyspace, [one for pair in some for one in pair])
        forget(keyspace, replaced)


def remove_entries(client: zerohop.Client, keyspace: zerohop.Keyspace, names: list[bytes]) -> None:
    """Removes entries, with the blobs that they name."""
    for at in range(0, len(names), ENTRIES_AT_ONCE):
        some = names[at : at + ENTRIES_AT_ONCE]

        def work(t: Transaction, some: list[bytes] = some) -> list[bytes]:
            named, blobs = [], t[keyspace].blobs
            for one, found in zip(some, blobs.stat_many(some)):
                entry = entry_of(found)
                if entry is None:
                    continue
                named += [blob for blob, _ in entry.parts]
                blobs.delete(one)
            return named

        named = client.transact(work)
        settle(keyspace, some)
        forget(keyspace, named)


class FileTransaction(Gathered):  # type: ignore[misc]
    """Files that become visible together: `with fs.transaction:` publishes all of them in one
    transaction."""

    fs: Any

    def complete(self, commit: bool = True) -> None:
        files: list[ZerohopFile] = list(self.files)
        self.files.clear()
        fs = self.fs
        fs._intrans, fs._transaction, self.fs = False, None, None
        whole = commit and all(file._entry is not None and not file._cut and not file._given_up for file in files)
        if not whole:
            for file in files:
                file.discard()
            if commit:
                raise OSError(errno.EIO, "a file of the transaction was not closed, or was cut off: none is seen")
            return
        entries = [file.writing() for file in files]
        for file in files:
            file._blob = None
        if entries:
            fs._publish(entries)
