"""`/files`: what is at a path, the entries of directories, and changes to both."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response

from glovebox.box.files.actions.paths import check_places, move_refusal
from glovebox.box.files.disk import paths
from glovebox.box.files.disk.local_files import LocalFiles
from glovebox.box.files.disk.metadata import file_info, kind_of, list_page
from glovebox.box.files.disk.path_errors import shown
from glovebox.box.files.disk.replacement import Owner
from glovebox.box.files.endpoints.request_paths import (
    REFUSALS,
    RequestPaths,
    checked_mode,
    owner_of,
    query_path,
)
from glovebox.box.machine import complete
from glovebox.errors import FileError
from glovebox.http import requests
from glovebox.http.endpoints import Endpoint, Parameter, Reply
from glovebox.http.requests import InvalidParameter
from glovebox.http.responses import ErrorBody, json_response
from glovebox.protocol.file_info import (
    Chmod,
    FileInfo,
    FileList,
    Mkdir,
    PathExists,
    Remove,
    Removed,
    Rename,
)

T = TypeVar("T")

_PAGE = 1_000
_LARGEST_PAGE = 10_000
_DEEPEST = 64


class PathEndpoints:
    """The endpoints."""

    def __init__(self, workspace: RequestPaths, files: LocalFiles) -> None:
        self._workspace = workspace
        self._files = files

    async def stat(self, request: Request) -> Response:
        """What is at a path."""
        follow = requests.flag(request, "follow")
        return await self._answer(query_path(request), lambda path: file_info(path, follow=follow))

    async def exists(self, request: Request) -> Response:
        """Whether something is at a path."""
        return await self._answer(query_path(request), _exists)

    async def list(self, request: Request) -> Response:
        """A page of the entries of a directory."""
        depth = requests.integer(request, "depth", 1, 1, _DEEPEST)
        limit = requests.integer(request, "limit", _PAGE, 1, _LARGEST_PAGE)
        after = request.query_params.get("after", "")
        return await self._answer(
            query_path(request), lambda path: list_page(path, depth=depth, limit=limit, after=after)
        )

    async def mkdir(self, request: Request) -> Response:
        asked = await requests.body(request, Mkdir)
        mode = None if asked.mode is None else checked_mode(asked.mode, ("body", "mode"))

        def make(path: str) -> tuple[FileInfo, bool]:
            made = complete(self._files.make_directory, path, parents=asked.parents)
            if made and mode is not None:
                os.chmod(path, mode)
            return file_info(path, follow=True), made

        info, made = await self._workspace.run(asked.path, make)
        return json_response(info, 201 if made else 200)

    async def remove(self, request: Request) -> Response:
        asked = await requests.body(request, Remove)

        def remove(path: str) -> Removed:
            if asked.missing_ok and not os.path.lexists(path):
                return Removed(removed=0)
            return Removed(removed=paths.delete(path, None, recursive=asked.recursive))

        return await self._answer(asked.path, remove)

    async def rename(self, request: Request) -> Response:
        asked = await requests.body(request, Rename)

        async def move(source: str, target: str) -> None:
            kind = await self._files.stat(source, follow=False)
            await check_places(self._files, source, target, kind)
            try:
                await self._files.move(source, target, overwrite=asked.overwrite)
            except OSError as error:
                raise move_refusal(error, source, target, asked.overwrite) from error

        def rename(source: str) -> FileInfo:
            target = self._workspace.absolute(asked.target)
            complete(move, source, target)
            return file_info(target)

        return await self._answer(asked.source, rename)

    async def chmod(self, request: Request) -> Response:
        """Change permission bits and owner."""
        asked = await requests.body(request, Chmod)
        if asked.mode is None and not asked.owner:
            raise InvalidParameter("missing", ("body", "mode"), "Give mode, owner, or both", None)
        mode = None if asked.mode is None else checked_mode(asked.mode, ("body", "mode"))

        def change(path: str) -> FileInfo:
            owner = owner_of(asked.owner) if asked.owner else Owner()
            if asked.recursive and os.path.isdir(path) and not os.path.islink(path):
                _change_tree(path, mode, owner)
            else:
                _change(path, mode, owner, None)
            return file_info(path, follow=True)

        return await self._answer(asked.path, change)

    async def _answer(self, path: str, call: Callable[[str], T]) -> Response:
        return json_response(await self._workspace.run(path, call))


def _exists(path: str) -> PathExists:
    try:
        return PathExists(exists=True, kind=kind_of(os.stat(path)))
    except (FileNotFoundError, NotADirectoryError):
        return PathExists(exists=False)


def _change(name: str, mode: int | None, owner: Owner, directory: int | None) -> None:
    if owner != Owner():
        os.chown(name, *owner, dir_fd=directory)
    if mode is not None:  # after the owner, as a change of that takes bits away
        os.chmod(name, mode, dir_fd=directory)


def _change_tree(root: str, mode: int | None, owner: Owner) -> None:
    """Change a directory and all that is in it, except links: first what is above if it opens directories."""

    def fail(error: OSError) -> None:
        raise error

    opens = mode is not None and mode & stat.S_IRUSR and mode & stat.S_IXUSR
    if opens:
        _change(root, mode, owner, None)
    try:
        for _, directories, names, descriptor in os.fwalk(root, topdown=bool(opens), onerror=fail):
            for name in (*directories, *names):
                status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                if not stat.S_ISLNK(status.st_mode):
                    _change(name, mode, owner, descriptor)
    except RecursionError as error:
        raise FileError(f"{shown(root)} is nested too deeply. Use chmod -R.") from error
    if not opens:
        _change(root, mode, owner, None)


def path_endpoints(workspace: RequestPaths, files: LocalFiles) -> list[Endpoint]:
    """What is served of paths."""
    own = PathEndpoints(workspace, files)
    text = {"type": "string"}
    path = Parameter("path", text, "Relative ones start at the workspace; `~` is the home.", required=True)
    too_large = {413: Reply("The body is too large.", ErrorBody)}
    return [
        Endpoint(
            "GET", "/files/stat", own.stat, "What is at a path",
            {200: Reply("A file, a directory or something else.", FileInfo), **REFUSALS},
            parameters=(path, Parameter("follow", {"type": "boolean"}, "Of a link: what it leads to.")),
        ),
        Endpoint(
            "GET", "/files/exists", own.exists, "Whether something is at a path",
            {200: Reply("Links are followed.", PathExists), **REFUSALS}, parameters=(path,),
        ),
        Endpoint(
            "GET", "/files/list", own.list, "The entries of a directory, in pages",
            {200: Reply("In the order of names, each directory before what is in it.", FileList), **REFUSALS},
            parameters=(
                path,
                Parameter("depth", {"type": "integer", "minimum": 1, "maximum": _DEEPEST},
                          "How many levels; links are not followed. Default: 1."),
                Parameter("limit", {"type": "integer", "minimum": 1, "maximum": _LARGEST_PAGE},
                          f"At most so many entries. Default: {_PAGE}."),
                Parameter("after", text, "The `next` of the page before."),
            ),
        ),
        Endpoint(
            "POST", "/files/mkdir", own.mkdir, "Make a directory",
            {200: Reply("It was there.", FileInfo), 201: Reply("It is new.", FileInfo),
             **REFUSALS, **too_large}, body=Mkdir,
        ),
        Endpoint(
            "POST", "/files/remove", own.remove, "Remove a file or a directory",
            {200: Reply("How many entries that were.", Removed), **REFUSALS, **too_large}, body=Remove,
        ),
        Endpoint(
            "POST", "/files/rename", own.rename, "Give a file or a directory another path",
            {200: Reply("Under its new path.", FileInfo), **REFUSALS, **too_large}, body=Rename,
        ),
        Endpoint(
            "POST", "/files/chmod", own.chmod, "Change permission bits and owner",
            {200: Reply("With its new bits.", FileInfo), **REFUSALS, **too_large}, body=Chmod,
        ),
    ]  # fmt: skip
