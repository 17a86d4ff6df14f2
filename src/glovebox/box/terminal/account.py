"""Whose shell it is."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from pathlib import Path

import msgspec

from glovebox.errors import StartupError


class Account(msgspec.Struct, frozen=True):
    """The user a shell runs as; `switch` says whether that is another than the server's."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    switch: bool
    variables: Mapping[str, str]

    @classmethod
    def named(cls, username: str) -> Account:
        """Look a user up; without the right to become another user it is always the server's own.

        Raises:
            StartupError: there is no such user.
        """
        uid = os.geteuid()
        try:
            entry = pwd.getpwnam(username) if uid == 0 else pwd.getpwuid(uid)
        except KeyError:
            if uid != 0 or username == str(uid):
                # A container may run under a number that no name belongs to, and have no accounts at all.
                return cls(uid, os.getegid(), (), False, {})
            raise StartupError(f"there is no user named {username!r} to run the shell as") from None
        if entry.pw_uid == uid:
            return cls(uid, os.getegid(), (), False, {})
        variables = {
            "HOME": entry.pw_dir,
            "USER": entry.pw_name,
            "LOGNAME": entry.pw_name,
            "SHELL": entry.pw_shell or "/bin/sh",
        }
        groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
        return cls(entry.pw_uid, entry.pw_gid, groups, True, variables)

    def can_enter(self, path: str) -> bool:
        """Whether a path is a directory that this user may enter, by the modes up to the root. Blocks."""
        if not os.path.isdir(path):
            return False
        if not self.switch:
            return os.access(path, os.X_OK)
        real = Path(os.path.realpath(path))
        return all(self._may_search(directory.stat()) for directory in (real, *real.parents))

    def _may_search(self, directory: os.stat_result) -> bool:
        if directory.st_uid == self.uid:
            return bool(directory.st_mode & 0o100)
        if directory.st_gid in (self.gid, *self.groups):
            return bool(directory.st_mode & 0o010)
        return bool(directory.st_mode & 0o001)
