"""Whose shell it is."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping

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
