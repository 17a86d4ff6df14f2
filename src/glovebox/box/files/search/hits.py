"""Where lines match: what either search engine finds out, before anything is read for showing."""

from __future__ import annotations

import dataclasses

#: A line: its number, its offset in the file and the offset of the match in it, both in bytes.
Hit = tuple[int, int, int]
#: A line in a file.
Place = tuple[bytes, Hit]


@dataclasses.dataclass(slots=True)
class FileHits:
    """The matching lines of one file."""

    path: bytes
    binary: bool = False
    hits: list[Hit] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(slots=True)
class MatchedLines:
    """The outcome of searching many files, in the order they were given."""

    files: list[FileHits] = dataclasses.field(default_factory=list)
    #: How many lines match in `files`.
    total: int = 0
    #: Binary files with a match.
    binary: int = 0
    #: Files that could not be searched.
    unreadable: int = 0
    #: Whether time or the limit on lines ended the search early.
    incomplete: bool = False

    def add(self, file: FileHits, limit: int) -> None:
        """Take the lines of the next file, up to `limit` in all."""
        if file.binary:
            self.binary += 1
            return
        room = limit - self.total
        if len(file.hits) > room:
            self.incomplete = True
            file = FileHits(file.path, hits=file.hits[:room])
        if file.hits:
            self.files.append(file)
            self.total += len(file.hits)

    def page(self, offset: int, limit: int) -> list[Place]:
        """The matching lines from number `offset` on, `limit` at most."""
        chosen: list[Place] = []
        skip = offset
        for file in self.files:
            if len(chosen) == limit:
                break
            if skip >= len(file.hits):
                skip -= len(file.hits)
                continue
            chosen.extend((file.path, hit) for hit in file.hits[skip : skip + limit - len(chosen)])
            skip = 0
        return chosen
