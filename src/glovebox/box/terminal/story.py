"""What the journal of a session amounts to. Pure."""

from __future__ import annotations

import msgspec

from glovebox.box.terminal.commands import KEEP
from glovebox.box.terminal.identity import Identity
from glovebox.box.terminal.journal import (
    Answered,
    Began,
    Ended,
    Entry,
    Opened,
    Reported,
    Resized,
    Sent,
    ShellStarted,
)


class Story(msgspec.Struct):
    """What a journal amounts to."""

    opened: Opened
    identity: Identity | None = None
    began: dict[str, Began] = msgspec.field(default_factory=dict)
    ended: dict[str, Ended] = msgspec.field(default_factory=dict)
    #: By command, the action that was told of its end.
    answered: dict[str, str] = msgspec.field(default_factory=dict)
    #: By command, the last partial report.
    reported: dict[str, Reported] = msgspec.field(default_factory=dict)
    sent: list[Sent] = msgspec.field(default_factory=list)
    #: The last command that the present shell was given.
    last: Began | None = None

    @property
    def cwd(self) -> str:
        """The last directory that is known."""
        reports = [entry.report for entry in self.ended.values() if entry.report]
        return next(
            (report.working_dir for report in reversed(reports) if report.working_dir), self.opened.cwd
        )

    @property
    def log_end(self) -> int:
        """How far the log is known to have come."""
        ends = [start + length for entry in self.ended.values() for start, length in entry.extents]
        shells = [self.identity.position] if self.identity else []
        return max([0, *ends, *shells, *(entry.position for entry in self.began.values())])

    def entries(self, keep: int) -> list[Entry]:
        """The same in as few lines as possible, with the newest commands only."""
        entries: list[Entry] = [self.opened]
        if self.identity is not None:
            entries.append(ShellStarted(identity=self.identity))
        for began in list(self.began.values())[-keep:]:
            entries.append(began)
            if began.id in self.reported:
                entries.append(self.reported[began.id])
            if began.id in self.ended:
                entries.append(self.ended[began.id])
            if began.id in self.answered:
                entries.append(Answered(id=began.id, action_id=self.answered[began.id]))
        return entries + list(self.sent)


def read_story(entries: list[Entry]) -> Story | None:
    """What happened to a session; None if the journal does not even say that it was opened."""
    if not entries or not isinstance(entries[0], Opened):
        return None
    story = Story(entries[0])
    for entry in entries[1:]:
        match entry:
            case ShellStarted():
                story.identity, story.last = entry.identity, None
            case Began():
                story.began[entry.id] = story.last = entry
                story.sent.clear()
            case Sent():
                story.sent.append(entry)
            case Reported():
                story.reported[entry.id] = entry
            case Ended():
                story.ended[entry.id] = entry
            case Answered():
                story.answered[entry.id] = entry.action_id
            case Resized():
                story.opened = msgspec.structs.replace(story.opened, rows=entry.rows, columns=entry.columns)
            case Opened():
                story.opened = entry
    return story


def summarize(entries: list[Entry]) -> list[Entry]:
    """A journal without what is forgotten."""
    story = read_story(entries)
    return story.entries(KEEP) if story else entries
