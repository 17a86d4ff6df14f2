"""What a window says of itself, made sure that it can be kept, listed and logged."""

from __future__ import annotations

import ntpath
import posixpath
import unicodedata

from msgspec import structs

from glovebox.http.parameters import InvalidParameter
from glovebox.protocol.window import Folder, Registration

MOST_FOLDERS = 100
MOST_CAPABILITIES = 100
LONGEST_NAME = 1000
LONGEST_PATH = 4096
LONGEST_WORD = 200


def checked(said: Registration) -> Registration:
    """A registration without control characters in its names.

    Raises:
        InvalidParameter: something in it is too long, or is not what it should be.
    """
    if not said.instance:
        raise _wrong("instance", "Input should not be empty")
    if len(said.capabilities) > MOST_CAPABILITIES:
        raise _wrong("capabilities", f"There should be at most {MOST_CAPABILITIES}")
    return structs.replace(
        said,
        instance=_clean("instance", said.instance, LONGEST_WORD),
        name=_clean("name", said.name, LONGEST_NAME),
        folders=checked_folders(said.folders),
        vscode_version=_clean("vscode_version", said.vscode_version, LONGEST_WORD),
        extension_version=_clean("extension_version", said.extension_version, LONGEST_WORD),
        capabilities=[_clean("capabilities", one, LONGEST_WORD) for one in said.capabilities],
        app=_clean("app", said.app, LONGEST_WORD),
        remote=_clean("remote", said.remote, LONGEST_WORD),
    )


def checked_folders(folders: list[Folder]) -> list[Folder]:
    """Folders without control characters in their names; their paths are left as they are.

    Raises:
        InvalidParameter: there are too many, or one has no absolute path.
    """
    if len(folders) > MOST_FOLDERS:
        raise _wrong("folders", f"There should be at most {MOST_FOLDERS}")
    for folder in folders:
        path = folder.path
        absolute = posixpath.isabs(path) or (ntpath.isabs(path) and bool(ntpath.splitdrive(path)[0]))
        if not absolute or "\0" in path or len(path) > LONGEST_PATH:
            raise _wrong("folders", f"Input should be an absolute path of at most {LONGEST_PATH} characters")
    return [structs.replace(one, name=_clean("folders", one.name, LONGEST_NAME)) for one in folders]


def _clean(field: str, text: str, most: int) -> str:
    if len(text) > most:
        raise _wrong(field, f"Input should have at most {most} characters")
    return "".join(" " if unicodedata.category(one) in ("Cc", "Cs", "Zl", "Zp") else one for one in text)


def _wrong(field: str, problem: str) -> InvalidParameter:
    return InvalidParameter("value_error", ("body", field), problem, None)
