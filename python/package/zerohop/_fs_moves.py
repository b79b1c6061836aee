"""Moves and removals of files: the entries of one keyspace change in one transaction."""

from __future__ import annotations

import os
from collections.abc import Callable
from glob import has_magic
from types import MethodType
from typing import Any, Optional

from fsspec.spec import AbstractFileSystem
from fsspec.utils import other_paths

from zerohop._callers import by_key, wraps_for_asyncio
from zerohop._entry import name_of
from zerohop._fs_parts import Place, above, over_directory, pages, path_of
from zerohop._fs_transactions import move_entries, remove_entries


class _Removing:
    """`rm` with patterns. fsspec's wrapper for asyncio gets a version without patterns: zarr, which stores its data
    under keys, removes them through it."""

    def __init__(self, matching: Callable[..., None], exactly: Callable[..., None]) -> None:
        self._matching, self._exactly = matching, exactly
        self.__doc__ = matching.__doc__

    def __get__(self, fs: Any, owner: Any = None) -> Any:
        if fs is None:
            return self._matching
        return MethodType(self._exactly if wraps_for_asyncio() else self._matching, fs)


class MovingFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """The part of the file system that moves and removes files."""

    def mv(self, path1: Any, path2: Any, recursive: bool = False, maxdepth: Optional[int] = None, **kwargs: Any) -> None:
        """Moves a file, or with `recursive` a directory. Within one keyspace it is one transaction for up to 4,000
        entries: a file is never visible in both places or in neither. Into another keyspace, and for patterns and
        lists, it is a copy followed by a removal.
        """
        single = isinstance(path1, (str, os.PathLike)) and isinstance(path2, (str, os.PathLike))
        source, target = (self._place(path1), self._place(path2)) if single else (None, None)
        if source is None or target is None or has_magic(str(path1)) or maxdepth is not None or source.keyspace != target.keyspace:
            self._move_each(self._moves(path1, path2, recursive, maxdepth), recursive)
            return
        into = str(path2).endswith("/") or self.isdir(path2)
        if into:
            target = Place(target.keyspace, f"{target.path}/{source.path.rsplit('/', 1)[-1]}".lstrip("/"))
        if source == target:
            return
        if not source.path:
            raise ValueError("a keyspace cannot be moved")
        keyspace = self._keyspace(source.keyspace)
        pairs = []
        is_file = self._entry(path1) is not None
        if is_file:
            self._check_place(target)
            pairs.append((name_of(source.path), name_of(target.path)))
        elif not recursive:
            raise IsADirectoryError(path1) if self.isdir(path1) else FileNotFoundError(path1)
        elif target.path.startswith(source.path + "/"):
            raise ValueError(f"{path1} cannot be moved into itself")
        if recursive:
            # A file and a directory of one name are moved together.
            old, new = name_of(source.path, directory=True), name_of(target.path, directory=True)
            pairs += [(found, new + found[len(old) :]) for found in keyspace.blobs.list(old)]
            if not pairs:
                raise FileNotFoundError(path1)
            self._check_below(target, {found for _, found in pairs[is_file:]})
        move_entries(self.client, keyspace, pairs)

    move = rename = mv

    def _is_above(self, place: Place) -> bool:
        """Whether a path has entries below it. It asks every partition."""
        names = self._keyspace(place.keyspace).blobs.list(name_of(place.path, directory=True), page=1)
        return next(names, None) is not None

    def _check_place(self, place: Place) -> None:
        """Raises an error if a file would take the place of a directory."""
        path = f"{place.keyspace}/{place.path}"
        self._may_be_file(path)
        if self._entry(path) is None and self._is_above(place):
            raise over_directory(path)

    def _check_below(self, target: Place, names: set[bytes]) -> None:
        """Raises an error if one of these new names of files is that of a directory that exists already."""
        if not names:
            return
        old = name_of(target.path, directory=True)
        for found in self._keyspace(target.keyspace).blobs.list(old):
            for one in above(found):
                if one in names and self._entry(path_of(one, target.keyspace)) is None:
                    raise over_directory(path_of(one, target.keyspace))
                names.discard(one)

    def mv_file(self, path1: Any, path2: Any, **kwargs: Any) -> None:
        """Moves one file to this path, and replaces an existing file. Both paths are literal: no pattern, and no
        directory to move into."""
        source, target = self._place(path1), self._place(path2)
        self._file(path1)
        if source != target:
            self._move_each([(f"{source.keyspace}/{source.path}", f"{target.keyspace}/{target.path}")], False)

    def _moves(self, path1: Any, path2: Any, recursive: bool, maxdepth: Optional[int]) -> list[tuple[str, str]]:
        """Source and target paths, with the rules of fsspec's `copy`."""
        if isinstance(path1, list) and isinstance(path2, list):
            if len(path1) != len(path2):
                raise ValueError(f"{len(path1)} paths cannot be moved to {len(path2)}: give a target for each")
            return [(self._strip_protocol(one), self._strip_protocol(other)) for one, other in zip(path1, path2)]
        is_one, from_ = not isinstance(path1, list), str(path1)
        paths = self.expand_path(path1, recursive=recursive, maxdepth=maxdepth)
        if is_one and (not recursive or maxdepth is not None):
            paths = [path for path in paths if not self.isdir(path)]
        to = path2 if isinstance(path2, list) else str(path2)
        into = isinstance(to, str) and (to.endswith("/") or self.isdir(to))
        exists = is_one and (len(paths) == 1 if has_magic(from_) else into and not from_.endswith("/"))
        return list(zip(paths, map(self._strip_protocol, other_paths(paths, to, exists=exists, flatten=not is_one))))

    def _move_each(self, pairs: list[tuple[str, str]], recursive: bool) -> None:
        """Moves each file, and with `recursive` the entry of each created directory, without its contents."""
        within: dict[str, list[tuple[bytes, bytes]]] = {}
        across: dict[str, list[str]] = {}
        for path, new in pairs:
            source, target = self._place(path), self._place(new)
            if source == target:
                # It exists already.
                continue
            if self._entry(path) is not None:
                if source.keyspace == target.keyspace:
                    # Else the copy does so.
                    self._check_place(target)
            elif not self.isdir(path):
                raise FileNotFoundError(path)
            elif not recursive:
                raise IsADirectoryError(path)
            if source.keyspace != target.keyspace:
                self.cp_file(path, new)
                across.setdefault(source.keyspace, []).append(source.path)
                continue
            names = within.setdefault(source.keyspace, [])
            names.append((name_of(source.path), name_of(target.path)))
            if recursive:
                names.append((name_of(source.path, directory=True), name_of(target.path, directory=True)))
        for keyspace, names in within.items():
            move_entries(self.client, self._keyspace(keyspace), names)
        for keyspace, paths in across.items():
            remove_entries(self.client, self._keyspace(keyspace), self._entries_at(keyspace, paths, recursive))

    def _rm_matching(self, path: Any, recursive: bool = False, maxdepth: Optional[int] = None) -> None:
        """Removes files, or with `recursive` directories. The entries of one keyspace are removed in one transaction
        for up to 4,000 of them, so that they disappear together. Files that other clients add to a directory meanwhile
        stay.

        Paths may be patterns, except keys of a mapping (`get_mapper`): `rm_file` takes a path literally.
        """
        if by_key():
            self._rm_exactly(path, recursive, maxdepth)
        else:
            self._remove(self.expand_path(path, recursive=recursive, maxdepth=maxdepth), recursive)

    def _rm_exactly(self, path: Any, recursive: bool = False, maxdepth: Optional[int] = None) -> None:
        """The same with literal paths."""
        # `expand_path` of earlier versions of fsspec takes every path for a pattern.
        found: set[str] = set()
        for one in map(self._strip_protocol, path if isinstance(path, list) else [path]):
            if recursive:
                found.update(self.find(one, maxdepth=maxdepth, withdirs=True))
            if not recursive or self.exists(one):
                found.add(one)
        if not found:
            raise FileNotFoundError(path)
        self._remove(sorted(found), recursive)

    rm = _Removing(_rm_matching, _rm_exactly)

    def _remove(self, paths: list[Any], recursive: bool) -> None:
        places: dict[str, list[str]] = {}
        for one in paths:
            place = self._place(one)
            if place.path:
                places.setdefault(place.keyspace, []).append(place.path)
            elif not recursive:
                raise IsADirectoryError(one)
        doomed = {name: self._entries_at(name, paths, recursive) for name, paths in places.items()}
        for name, entries in doomed.items():
            remove_entries(self.client, self._keyspace(name), entries)

    def _entries_at(self, keyspace: str, paths: list[str], recursive: bool) -> list[bytes]:
        """The names of the entries at these paths: of files, and if `recursive` of created directories."""
        blobs, there = self._keyspace(keyspace).blobs, []
        for page in pages(paths):
            for path, found in zip(page, blobs.stat_many(name_of(path) for path in page)):
                if found is not None:
                    there.append(name_of(path))
                elif not recursive:
                    full = f"{keyspace}/{path}"
                    raise IsADirectoryError(full) if self.isdir(full) else FileNotFoundError(full)
            if recursive:
                made = [name_of(path, directory=True) for path in page]
                there += [name for name, found in zip(made, blobs.stat_many(made)) if found is not None]
        return there

    def rm_file(self, path: Any) -> None:
        """Removes one file, whose path is literal."""
        self._remove([path], False)

    _rm = rm_file
