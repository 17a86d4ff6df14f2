"""The errors and notices of the editor, exactly as the contract has them."""

from __future__ import annotations

COMMANDS = ("view", "create", "str_replace", "insert", "undo_edit")

#: Longer texts are cut, with a notice that says what to do instead.
CLIP_AT = 16_000

_CLIPPED = "<response clipped><NOTE>Due to the max output limit, only part of "
TEXT_NOTICE = (
    f"{_CLIPPED}this file has been shown to you. You should retry this tool after you have searched inside "
    "the file with `grep -n` in order to find the line numbers of what you are looking for.</NOTE>"
)
CONVERTED_NOTICE = (
    f"{_CLIPPED}this file has been shown to you. Please use Python libraries to view the entire file or "
    "search for specific content within the file.</NOTE>"
)
DIRECTORY_NOTICE = (
    f"{_CLIPPED}this directory has been shown to you. You should use `ls -la` instead to view large "
    "directories incrementally.</NOTE>"
)
OTHER_NOTICE = f"{_CLIPPED}the full response has been shown to you.</NOTE>"


class EditorError(Exception):
    """The command could not be carried out; the text goes to the caller after `ERROR:`."""


class MissingPath(EditorError):
    """Nothing is at the path, yet."""

    def __init__(self, path: str) -> None:
        super().__init__(
            _invalid_text("path", path, f"The path {path} does not exist. Please provide a valid path.")
        )


class BinaryFile(EditorError):
    """The file is not text."""

    def __init__(self, path: str) -> None:
        reason = "File appears to be binary and this file type cannot be read or edited by this tool."
        super().__init__(_unfit_text(path, reason))


def invalid(parameter: str, value: object, hint: str) -> EditorError:
    """A parameter has a value that cannot be used."""
    return EditorError(_invalid_text(parameter, value, hint))


def _invalid_text(parameter: str, value: object, hint: str) -> str:
    return f"Invalid `{parameter}` parameter: {value}. {hint}"


def missing(parameter: str, command: str) -> EditorError:
    """A parameter is not there."""
    return EditorError(f"Parameter `{parameter}` is required for command: {command}.")


def unfit(path: str, reason: str) -> EditorError:
    """The file is not one for this editor."""
    return EditorError(_unfit_text(path, reason))


def unknown_command(command: str) -> EditorError:
    """There is no such command."""
    return EditorError(
        f"Unrecognized command {command}. "
        f"The allowed commands for the oh_editor tool are: {', '.join(COMMANDS)}"
    )


def unreadable(path: str, error: Exception) -> EditorError:
    return EditorError(f"Ran into {error} while trying to read {path}")


def unwritable(path: str, error: Exception) -> EditorError:
    return EditorError(f"Ran into {error} while trying to write to {path}")


def already_exists(path: str) -> EditorError:
    return invalid(
        "path", path, f"File already exists at: {path}. Cannot overwrite files using command `create`."
    )


def only_view(path: str) -> EditorError:
    """A directory cannot be changed."""
    hint = f"The path {path} is a directory and only the `view` command can be used on directories."
    return invalid("path", path, hint)


def only_view_document(path: str, suffix: str) -> EditorError:
    hint = (
        f"The path {path} points to a binary file ({suffix}) and only the `view` command can be used on "
        "supported binary files."
    )
    return invalid("path", path, hint)


def no_history(path: str) -> EditorError:
    """There is nothing to undo."""
    return EditorError(f"No edit history found for {path}.")


def _unfit_text(path: str, reason: str) -> str:
    return f"File validation failed for {path}: {reason}"


def line_number(value: object) -> int | None:
    """The number of a line, which may come as text.

    Raises:
        EditorError: it is none.
    """
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    try:
        return int(str(value))
    except ValueError:
        raise EditorError(f"Invalid insert_line value: '{value}'. Expected an integer.") from None
