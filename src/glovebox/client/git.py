"""Changes in the git repositories of a workspace.

Git runs in the box and its output is parsed here, so a box needs no Python. The output is sent as base64,
because a terminal would change some bytes.
"""

from __future__ import annotations

import base64
import binascii
import logging
import posixpath
import shlex
from collections.abc import Container
from typing import Literal

from glovebox.client.backend import BoxClient
from glovebox.client.shell import run_separately
from glovebox.errors import ClientError
from glovebox.protocol.base import Message

log = logging.getLogger(__name__)

Status = Literal["A", "M", "D", "U"]
#: Bytes of the largest file that is compared.
LARGEST = 1 << 20
_STATUSES: dict[str, Status] = {"A": "A", "M": "M", "D": "D", "U": "U", "T": "M"}

#: The revision to compare with: the last push, the start of the branch, the remote's main branch, or nothing.
_REVISION = r"""
g() { git --no-pager --no-optional-locks "$@"; }
commit() { g rev-parse --quiet --verify "$1^{commit}"; }
revision() {
  branch=$(g symbolic-ref --quiet --short HEAD || echo HEAD)
  main=$(g symbolic-ref --quiet --short refs/remotes/origin/HEAD)
  for name in "$main" origin/main origin/master; do
    main=$name
    [ -n "$name" ] && commit "$name" >/dev/null && break
  done
  commit "origin/$branch" || g merge-base HEAD "$main" || commit "$main" ||
    printf '' | g hash-object -t tree --stdin
}
"""
#: Prints for each repository its directory, changes and new files, each ended by two NULs.
_CHANGES = (
    _REVISION
    + r"""
tell() {
  top=$(g rev-parse --is-inside-work-tree) && [ "$top" = true ] || return 0
  printf '%s\0\0' "$1"
  g diff --name-status --no-renames --no-ext-diff --relative -z "$(revision)" -- . && printf '\0' || return 1
  g ls-files --others --exclude-standard -z && printf '\0'
}
all() {
  tell . || return 1
  for entry in ./*/.git ./.[!.]*/.git; do
    [ -e "$entry" ] || continue
    (cd "${entry%/.git}" && tell "${entry%/.git}") || return 1
  done
}
exec 2>/dev/null
set -o pipefail
cd "$1" && all | base64 | tr -d '\n'
"""
)
#: Prints the original and the present text, a line each; else the exit status is the reason.
_DIFF = (
    _REVISION
    + r"""
exec 2>/dev/null
set -o pipefail
file=$1
directory=$(dirname "$file")
while [ ! -d "$directory" ]; do directory=$(dirname "$directory"); done
rest=${file#"${directory%/}"/}
cd "$directory" && top=$(g rev-parse --show-toplevel) || exit 3
path=$(pwd -P)/$rest
path=${path#"$top"/}
if [ -f "$file" ] && [ "$(stat -Lc %s "$file")" -gt "$2" ]; then exit 4; fi
blob=$(cd "$top" && g rev-parse --quiet --verify "$(revision):$path")
if [ -n "$blob" ] && [ "$(g cat-file -s "$blob")" -gt "$2" ]; then exit 4; fi
{ [ -z "$blob" ] || g cat-file blob "$blob"; } | base64 | tr -d '\n'
echo .
{ [ ! -f "$file" ] || cat "$file"; } | base64 | tr -d '\n'
echo .
"""
)
_WHY = {3: "no_repository", 4: "file_to_large"}


class GitChange(Message):
    """A changed file: added, modified, deleted or unmerged."""

    status: Status
    #: Relative to the given directory.
    path: str


class GitDiff(Message):
    """The present and the original text of a file; empty if it is missing."""

    modified: str
    original: str


async def get_git_changes(box: BoxClient, cwd: str | None) -> list[GitChange] | None:
    """The changed files below a directory, by path: in its repository, and in those directly below it.

    None if no directory is given, or git fails.
    """
    if not cwd:
        return None
    result = await run_separately(
        box, f"bash -c {shlex.quote(_CHANGES)} git-changes {shlex.quote(cwd)}", cwd=cwd
    )
    if result.exit_code != 0:
        log.warning(
            "git cannot tell what changed in %s: %s", cwd, result.output or f"status {result.exit_code}"
        )
        return None
    try:
        output = base64.b64decode("".join(result.output.split()), validate=True)
    except binascii.Error:
        log.warning("git did not tell what changed in %s: %s", cwd, result.output[:200])
        return None
    return _parse_changes(output)


async def get_git_diff(box: BoxClient, file_path: str, cwd: str | None) -> GitDiff:
    """The present and the original text of a file in a repository.

    Raises:
        ClientError: `no_dir_in_git_diff`, `no_repository`, `file_to_large` or `error_in_git_diff`.
    """
    if not cwd:
        raise ClientError("no_dir_in_git_diff")
    path = posixpath.normpath(posixpath.join(cwd, file_path))
    command = f"bash -c {shlex.quote(_DIFF)} git-diff {shlex.quote(path)} {LARGEST}"
    result = await run_separately(box, command, cwd=cwd)
    if result.exit_code != 0:
        raise ClientError(_WHY.get(result.exit_code, "error_in_git_diff"))
    try:
        original, modified, _ = (_text(part) for part in result.output.split("."))
    except ValueError:  # also of text that is not base64
        raise ClientError("error_in_git_diff") from None
    return GitDiff(modified=modified, original=original)


async def get_workspace_branch(box: BoxClient, primary_repo_path: str | None = None) -> str | None:
    """The branch that is checked out in the workspace, or in a repository below it; None if there is none."""
    cwd = posixpath.join(box.workspace, primary_repo_path or "")
    result = await run_separately(box, "git branch --show-current", cwd=cwd)
    return result.output.strip() or None if result.exit_code == 0 else None


def _parse_changes(output: bytes) -> list[GitChange]:
    """Parse the output of `_CHANGES`."""
    fields = iter(output.decode(errors="replace").split("\0")[:-1])
    found: dict[str, set[tuple[str, Status]]] = {}
    for directory in fields:
        next(fields, "")
        name = directory.removeprefix("./")
        prefix = "" if name == "." else f"{name}/"
        changed = found.setdefault(name, set())
        for status in iter(lambda: next(fields, ""), ""):
            changed.add((prefix + next(fields, ""), _STATUSES.get(status, "M")))
        changed.update((prefix + path, "A") for path in iter(lambda: next(fields, ""), ""))
    if "." in found:
        found["."] = {change for change in found["."] if not _has_own_repository(change[0], found)}
    return [GitChange(path=path, status=status) for path, status in sorted(set().union(*found.values()))]


def _has_own_repository(path: str, repositories: Container[str]) -> bool:
    return path.partition("/")[0] in repositories


def _text(encoded: str) -> str:
    """A decoded text, without the last line end."""
    text = base64.b64decode("".join(encoded.split()), validate=True).decode(errors="replace")
    return text.replace("\r\n", "\n").removesuffix("\n")
