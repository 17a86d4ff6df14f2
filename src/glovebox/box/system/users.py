"""The sandbox user and its workspace, prepared before the box serves."""

from __future__ import annotations

import contextlib
import grp
import itertools
import logging
import os
import pwd
import re
import shutil
import stat
import subprocess

from glovebox.errors import StartupError

log = logging.getLogger(__name__)

ACCOUNTS = "/etc/passwd"
GROUPS = "/etc/group"
SUDOERS = "/etc/sudoers.d"
BASH = "/bin/bash"
_NAME = re.compile(r"[a-z_][a-z0-9_.-]{0,31}", re.IGNORECASE)
#: Files that container engines and Kubernetes put into containers, and the one of our own image.
CONTAINER_FILES = (
    "/.dockerenv",
    "/run/.containerenv",
    "/run/secrets/kubernetes.io",
    "/etc/glovebox/container",
)
FIRST_PROCESS = "/proc/1/cgroup"
_CONTAINER_GROUP = re.compile(r"docker|libpod|kubepods|containerd|crio")
#: The highest id that useradd gives to a group of a system account by itself.
_HIGHEST_SYSTEM_GROUP = 999


def ensure_user(username: str, user_id: int, *, sudo: bool = False) -> int:
    """The id of the sandbox user, who is created when missing; an existing account is never changed.

    With `sudo`, that user may become root without a password. Only a container may be changed like that.

    Raises:
        StartupError: the account is missing and cannot be made, or sudo cannot be set up.
    """
    if sudo and not in_container():
        raise StartupError(
            "--sudo would let commands become root of this machine, which is not a container."
            " Leave it out, or start the box in a container."
        )
    try:
        existing = pwd.getpwnam(username).pw_uid
    except KeyError:
        _create(username, user_id, as_sudoer=sudo)
        existing = user_id
    if username != "root" and existing != user_id:
        log.warning("user %s has the id %d, not %d; the existing one is used", username, existing, user_id)
    if sudo and existing != 0:
        _allow_sudo(existing)
    return existing


def in_container() -> bool:
    """Whether this is a container of Docker, Podman or Kubernetes, or of our own image."""
    if any(os.path.exists(path) for path in CONTAINER_FILES):
        return True
    try:
        with open(FIRST_PROCESS, encoding="utf-8") as groups:
            return _CONTAINER_GROUP.search(groups.read()) is not None
    except OSError:
        return False


def _create(username: str, user_id: int, *, as_sudoer: bool) -> None:
    if os.geteuid() != 0:
        raise StartupError(
            f"User {username!r} does not exist and only root can create it. "
            "Leave out --username to work as the current user."
        )
    if not _NAME.fullmatch(username):
        raise StartupError(f"{username!r} cannot be the name of a user.")
    try:
        if shutil.which("useradd"):
            _add(username, user_id, as_sudoer)
        else:
            _add_by_hand(username, user_id, as_sudoer)
    except OSError as error:
        raise StartupError(f"Failed to create user `{username}` with UID {user_id}: {error}") from error
    log.info("created user %s with id %d", username, user_id)


def _add(username: str, user_id: int, as_sudoer: bool) -> None:
    """Sudoers are members of the groups that the contract names, others have a group of their own."""
    if as_sudoer:
        groups = ["-g", "root", *(["-G", "sudo"] if _has_group("sudo") else [])]
    else:
        groups = ["-U", "-K", f"SYS_GID_MAX={max(user_id, _HIGHEST_SYSTEM_GROUP)}"]
    command = ["useradd", "-rm", "-d", f"/home/{username}", "-s", _shell(), *groups]
    made = subprocess.run(
        [*command, "-u", str(user_id), username], capture_output=True, text=True, check=False
    )
    if made.returncode:
        raise StartupError(
            f"Failed to create user `{username}` with UID {user_id}. Output: [{made.stderr.strip()}]"
        )


def _add_by_hand(username: str, user_id: int, as_sudoer: bool) -> None:
    """Small images have no program for it."""
    group_id = 0 if as_sudoer else _free_group_id(username, user_id)
    home = f"/home/{username}"
    with open(ACCOUNTS, "a", encoding="utf-8") as accounts:
        accounts.write(f"{username}:x:{user_id}:{group_id}::{home}:{_shell()}\n")
    if group_id:
        with open(GROUPS, "a", encoding="utf-8") as groups:
            groups.write(f"{username}:x:{group_id}:\n")
    os.makedirs(home, exist_ok=True)
    os.chown(home, user_id, group_id)


def _free_group_id(name: str, wanted: int) -> int:
    """The id for a new group: that of its user, or the next that no group has."""
    if _has_group(name):
        raise StartupError(f"Failed to create user `{name}`: there is a group of this name already.")
    taken = {group.gr_gid for group in grp.getgrall()}
    return next(number for number in itertools.count(wanted) if number not in taken)


def _allow_sudo(user_id: int) -> None:
    """Write the rule for this one user. It names the id: a name could mean something else to sudo."""
    path = os.path.join(SUDOERS, f"glovebox-{user_id}")
    rule = f"#{user_id} ALL=(ALL) NOPASSWD:ALL\n"
    draft = f"{path}.draft"  # sudo reads no file with a dot in its name
    try:
        os.makedirs(SUDOERS, mode=0o750, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o440)
        with open(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(descriptor, 0o440)  # whatever the umask is
            file.write(rule)
        _check_rule(draft)
        os.replace(draft, path)
    except OSError as error:
        raise StartupError(f"Failed to add sudoer: {error}") from error


def _check_rule(path: str) -> None:
    """Have sudo's own program read a rule, where it is installed: a wrong one would disable sudo for all."""
    program = shutil.which("visudo")
    if program is None:
        return
    checked = subprocess.run([program, "-cf", path], capture_output=True, text=True, check=False)
    if checked.returncode:
        os.unlink(path)
        raise StartupError(f"Failed to add sudoer: {checked.stderr.strip() or checked.stdout.strip()}")


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
