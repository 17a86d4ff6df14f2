"""What somebody most likely meant by a name that does not exist."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

#: Below this, a guess does more harm than good.
_LEAST = 0.6
#: No name that is meant is longer.
_LONGEST = 100
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

#: What tools are called elsewhere, word by word, and what does the same here.
TOOL_WORDS: Mapping[str, tuple[str, ...]] = {
    "run": ("bash", "shell", "sh", "terminal", "cmd", "command", "exec", "execute", "console", "process"),
    "run_ipython": ("python", "jupyter", "notebook", "ipython", "repl", "code", "interpreter", "cell"),
    "read": ("cat", "open", "load", "show"),
    "write": ("save", "create", "put", "overwrite"),
    "edit": (
        "replace",
        "patch",
        "modify",
        "change",
        "update",
        "apply",
        "insert",
        "editor",
        "undo",
        "strreplace",
    ),
    "glob": ("find", "ls", "list", "dir", "directory", "files", "tree"),
    "grep": ("search", "rg", "ripgrep", "lines"),
    "stat": ("info", "metadata", "exists"),
    "move": ("mv", "rename"),
    "delete": ("rm", "remove", "unlink", "rmdir"),
    "mkdir": ("makedirs", "folder"),
    "browse": ("fetch", "url", "web", "page", "visit", "navigate", "http", "website"),
    "browse_interactive": ("click", "browser", "goto", "fill", "playwright"),
}

#: The same for arguments.
ARGUMENT_WORDS: Mapping[str, tuple[str, ...]] = {
    "command": ("cmd", "script", "input", "keystrokes", "bash", "action", "operation"),
    "browser_actions": ("actions", "action", "code", "commands"),
    "code": ("source", "script", "python", "cell"),
    "path": ("file", "filename", "filepath", "dir", "directory", "folder", "cwd", "target", "root"),
    "content": ("text", "contents", "data", "body", "file_text"),
    "file_text": ("content", "contents", "text"),
    "pattern": ("query", "regex", "regexp", "glob", "search", "expression", "needle"),
    "include": ("glob", "files", "filter"),
    "url": ("uri", "link", "address", "href"),
    "source": ("src", "from", "path", "old"),
    "destination": ("dest", "dst", "to", "target", "new"),
    "timeout": ("seconds", "limit", "wait", "max_time"),
    "session": ("shell", "terminal", "tab"),
    "ignore_case": ("insensitive", "i"),
    "respect_gitignore": ("ignored",),
    "view_range": ("range", "lines", "start", "end"),
    "insert_line": ("line", "position"),
    "old_str": ("search", "find", "old", "before"),
    "new_str": ("replace", "replacement", "new", "after", "insert"),
}


def nearest(name: str, known: Iterable[str], words: Mapping[str, tuple[str, ...]]) -> str | None:
    """The known name that is most like this one, if any is like it at all; of equals, the first."""
    given = _words(name[:_LONGEST])
    best, most = None, _LEAST
    for candidate in known:
        if (score := _likeness(given, candidate, words.get(candidate, ()))) > most:
            best, most = candidate, score
    return best


def _likeness(given: list[str], candidate: str, others: tuple[str, ...]) -> float:
    """From 0 to 1: spelt alike, made of the same words, or called so elsewhere."""
    its = _words(candidate)
    if not given or not its:
        return 0.0
    joined = "".join(given)
    if joined == "".join(its):
        return 1.0
    if joined in others:
        return 0.95
    spelling = difflib.SequenceMatcher(None, joined, "".join(its)).ratio()
    shared = set(given) & set(its)
    whole = 0.9 if shared and shared >= set(its) else 0.8 if shared and shared >= set(given) else 0.0
    # The earlier a word stands, the more it tells: search_files searches, read_file reads.
    elsewhere = max((0.75 - 0.01 * at for at, word in enumerate(given) if word in others), default=0.0)
    return max(spelling, whole, elsewhere)


def _words(name: str) -> list[str]:
    """Its words in small letters: `readFile`, `read-file` and `READ_FILE` are the same two."""
    return [word.lower() for word in _WORD.findall(name)]
