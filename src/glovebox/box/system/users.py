"""The sandbox user and its workspace, prepared before the box serves."""

from __future__ import annotations

import grp
import logging
import os
import pwd
import re
import shutil
import stat
import subprocess

from glovebox.errors import StartupError

log = logging.getLogger(__name__)

SUDOERS = "/etc/sudoers"
ACCOUNTS = "/etc/passwd"
_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,31}", re.IGNORECASE)
BASH = "/bin/bash"
SUDO_RULE = "%sudo ALL=(ALL) NOPASSWD:ALL"


def ensure_user(username: str, user_id: int) -> int:
    """The id of the sandbox user, who is created when missing; an existing account is never changed.

    Raises:
        StartupError: the account is missing and cannot be made.
    """
    try:
        existing = pwd.getpwnam(username).pw_uid
    except KeyError:
        _create(username, user_id)
        return user_id
    if username != "root" and existing != user_id:
        log.warning("user %s has the id %d, not %d; the existing one is used", username, existing, user_id)
    return existing


def _create(username: str, user_id: int) -> None:
    if os.geteuid() != 0:
        raise StartupError(
            f"User {username!r} does not exist and only root can create it. "
            "Leave out --username to work as the current user."
        )
    try:
        with open(SUDOERS, "a", encoding="utf-8") as sudoers:
            sudoers.write(f"{SUDO_RULE}\n")
    except OSError as error:
        raise StartupError(f"Failed to add sudoer: {error}") from error
    try:
        if shutil.which("useradd"):
            _add(username, user_id)
        else:
            _add_by_hand(username, user_id)
    except OSError as error:
        raise StartupError(f"Failed to create user `{username}` with UID {user_id}: {error}") from error
    log.info("created user %s with id %d", username, user_id)


def _add(username: str, user_id: int) -> None:
    groups = ["-G", "sudo"] if _has_group("sudo") else []
    command = ["useradd", "-rm", "-d", f"/home/{username}", "-s", _shell(), "-g", "root", *groups]
    made = subprocess.run(
        [*command, "-u", str(user_id), username], capture_output=True, text=True, check=False
    )
    if made.returncode:
        raise StartupError(
            f"Failed to create user `{username}` with UID {user_id}. Output: [{made.stderr.strip()}]"
        )


def _add_by_hand(username: str, user_id: int) -> None:
    """Small images have no program for it."""
    if not _NAME.fullmatch(username):
        raise StartupError(f"{username!r} cannot be the name of a user.")
    home = f"/home/{username}"
    with open(ACCOUNTS, "a", encoding="utf-8") as accounts:
        accounts.write(f"{username}:x:{user_id}:0::{home}:{_shell()}\n")
    os.makedirs(home, exist_ok=True)
    os.chown(home, user_id, 0)


def _shell() -> str:
    """Where bash is; a runtime that is put into small images brings its own."""
    return BASH if os.path.exists(BASH) else shutil.which("bash") or BASH


def _has_group(name: str) -> bool:
    return any(group.gr_name == name for group in grp.getgrall())


def ensure_directory(path: str) -> None:
    """Make the workspace if it is missing.

    Raises:
        StartupError: it cannot be made, or something else is in its place.
    """
    before = os.umask(0o002)
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise StartupError(f"The working directory {path} cannot be made: {error}") from error
    finally:
        os.umask(before)


def give_directory(path: str, user_id: int, group: str) -> None:
    """Hand the workspace and all in it to the sandbox user, as far as that is allowed.

    What cannot be changed is logged and left, as the contract has it.
    """
    group_id = _group_id(group)
    if group_id is None:
        log.warning("group %s does not exist; the workspace keeps its owner", group)
        return
    refused = _give(path, user_id, group_id)
    try:
        os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) | stat.S_IRGRP | stat.S_IWGRP)
    except OSError as error:
        refused.append(str(error))
    if refused:
        log.warning("%d paths of the workspace keep their owner or mode; first: %s", len(refused), refused[0])


def _group_id(group: str) -> int | None:
    if group.isdigit():
        return int(group)
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        return None


def _give(root: str, user_id: int, group_id: int) -> list[str]:
    """Change owners below `root` where they differ; links themselves, never what they point to."""
    refused: list[str] = []
    pending = [root]
    while pending:
        directory = pending.pop()
        try:
            _give_one(directory, os.lstat(directory), user_id, group_id)
            with os.scandir(directory) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    else:
                        _give_one(entry.path, entry.stat(follow_symlinks=False), user_id, group_id)
        except OSError as error:
            refused.append(str(error))
    return refused


def _give_one(path: str, status: os.stat_result, user_id: int, group_id: int) -> None:
    if (status.st_uid, status.st_gid) != (user_id, group_id):
        os.chown(path, user_id, group_id, follow_symlinks=False)
