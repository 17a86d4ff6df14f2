"""The words for the box's own tools: what each does, and what its arguments mean.

Types, defaults and what is required come from the structs of the actions (`own`); a test sees to it that both
agree. Names that are withheld are of no use to a model, or mean something else to it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from glovebox.protocol.actions import (
    BrowseInteractiveAction,
    BrowseURLAction,
    CmdRunAction,
    FileEditAction,
    FileReadAction,
    FileWriteAction,
    IPythonRunCellAction,
)
from glovebox.protocol.base import Action
from glovebox.protocol.files import (
    DeleteAction,
    GlobAction,
    GrepAction,
    MkdirAction,
    MoveAction,
    StatAction,
)

EDITOR_COMMANDS = ("view", "create", "str_replace", "insert", "undo_edit")
#: The most characters that `read` shows.
READ_LIMIT = 100_000

LINE_RANGE: dict[str, Any] = {"type": "array", "items": {"type": "integer"}}
SECONDS: dict[str, Any] = {"type": "number", "exclusiveMinimum": 0}
KEYS: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
#: Seconds that a call waits for a command unless it says otherwise: many clients give up after 60.
PATIENCE = 45.0


class Argument(NamedTuple):
    """An argument, as the model sees it."""

    text: str
    #: What stands in for the schema of the field's type, where that says too little or too much.
    schema: dict[str, Any] | None = None
    #: The struct has a default, but a model has to say it.
    required: bool = False


class ToolEntry(NamedTuple):
    """A tool, as the model sees it."""

    action: type[Action[Any]]
    title: str
    description: str
    arguments: dict[str, Argument]
    withheld: frozenset[str] = frozenset()
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False


_IGNORED = frozenset({"thought", "security_risk"})
_SEARCH_SECONDS = Argument(
    "Seconds after which the search ends with what it has found; 30 unless given.", SECONDS
)
_FROM_SHELL = "A relative one starts from the current directory of the main shell."
_HIDDEN = Argument("Include names that begin with a dot.")
_GITIGNORE = Argument("Inside a git repository, leave out what .gitignore excludes.")
_OFFSET = Argument("How many results to skip: the next page, as the end of the previous one says.")
_LIMIT = Argument("How many results to answer with, at most 10,000.")

_RUN = ToolEntry(
    CmdRunAction,
    "Run a command",
    f"""\
Run a command in a persistent interactive bash: the directory, variables, functions and background jobs \
stay from one call to the next. Use it for everything that has no tool of its own: building, testing, \
installing, git.

What comes back is the output as a person would have seen it, then the exit code and the current \
directory. Of more than 30,000 characters the beginning, the end and the lines around errors are shown.

- The command may have several lines; they run as one command.
- When it waits for input, a password say, or shows a pager or an editor, the answer comes at once and says \
so. Then call again with is_input true to type a line, or with keys.
- A command that takes longer than {PATIENCE:g} seconds, or than timeout, goes on; the answer has what it \
has printed so far, and no exit code. Then call again with command "" to wait for more output, with \
is_input or keys, or with C-c (also C-d, C-z) to interrupt it. A new command is refused while one is \
running in the same session.
- Start servers in the background with their output in a file: `python app.py > app.log 2>&1 &`.
- Commands in different sessions run at the same time.""",
    {
        "command": Argument(
            'What to run. "" waits for more output of the command that is running; C-c, C-d and C-z are keys.'
        ),
        "is_input": Argument("Type command as a line of input into the program that is running."),
        "keys": Argument(
            "Press these keys in the program that is running: Enter, Escape, Tab, Up, PageDown, F1, C-c, "
            "M-x, or any character. With is_input, after the line.",
            KEYS,
        ),
        "timeout": Argument(
            "Wait up to so many seconds for the end of the command. It goes on when they are over.", SECONDS
        ),
        "session": Argument(
            "Which shell to use. One that is not there yet is opened: letters, digits, - and _. Shells share "
            "files, but no variables and no directory."
        ),
        "budget": Argument(
            "Answer with about so many characters: the beginning, the end, and the lines around errors. For "
            "commands that print much, such as builds."
        ),
    },
    _IGNORED | {"blocking", "is_static", "cwd", "hidden", "confirmation_state", "limits"},
    destructive=True,
    open_world=True,
)
_RUN_IPYTHON = ToolEntry(
    IPythonRunCellAction,
    "Run Python code",
    """\
Run a cell in a persistent IPython kernel: variables, imports and functions stay from one call to the \
next. Use it for computing, for data and for plots.

What comes back is what the cell printed, the value of its last expression, the traceback if it failed, \
and its pictures (matplotlib figures, say). %magics and !commands work; the kernel follows the directory \
of the main shell.""",
    {
        "code": Argument("The cell: Python code of any number of lines."),
        "timeout": Argument(
            "Interrupt the cell after so many seconds; variables stay. Without it there is no limit.", SECONDS
        ),
        "kernel": Argument(
            "Which kernel to use. One that is not there yet is started; they share no variables."
        ),
    },
    _IGNORED | {"include_extra", "confirmation_state", "kernel_init_code", "cwd"},
    destructive=True,
    open_world=True,
)
_READ = ToolEntry(
    FileReadAction,
    "Read a file",
    f"""\
Read a text file, or look at a picture (PNG, JPEG, GIF).

Without view_range the text comes as it is, up to {READ_LIMIT:,} characters. With view_range its lines \
come with their numbers; the path must be absolute then. To list a directory or to read an Office \
document or a PDF, use edit with the command view.""",
    {
        "path": Argument(f"The file. {_FROM_SHELL}"),
        "view_range": Argument(
            "The first and the last line to show, such as [11, 40], counted from 1; -1 as the last is the "
            "end.",
            LINE_RANGE,
        ),
    },
    _IGNORED | {"timeout", "start", "end", "impl_source"},
    read_only=True,
    idempotent=True,
)
_WRITE = ToolEntry(
    FileWriteAction,
    "Write a file",
    """\
Write a text file: a new one with the directories it needs, or all of an existing one anew. To change a \
part of a file, use edit.

The file always ends with a newline, whether or not the content does.""",
    {
        "path": Argument(f"The file. {_FROM_SHELL}"),
        "content": Argument("All of its text."),
    },
    _IGNORED | {"timeout", "start", "end"},
    destructive=True,
    idempotent=True,
)
_EDIT = ToolEntry(
    FileEditAction,
    "Edit a file",
    """\
View and change text files. What comes back is the changed part with the numbers of its lines, or what \
was wrong, after ERROR:

- view: the file with numbered lines, or those of view_range; of a directory, what is in it, two levels \
deep; of a .docx, .xlsx, .pptx or .pdf its text; of a picture the picture itself. At most 16,000 \
characters.
- create: a new file with file_text. It is refused if the path exists or its directory does not.
- str_replace: new_str in place of old_str, which must be there exactly once: copy it with its \
whitespace, and with enough lines around it to make it unique.
- insert: new_str as lines of its own after the line insert_line.
- undo_edit: takes back the last change that this tool made to the file, up to ten times.""",
    {
        "command": Argument("What to do.", {"type": "string", "enum": list(EDITOR_COMMANDS)}, required=True),
        "path": Argument("The file or, for view, directory: an absolute path."),
        "file_text": Argument("create: the text of the new file."),
        "old_str": Argument("str_replace: the text to replace, exactly as it is in the file."),
        "new_str": Argument(
            "str_replace: the text to put there; nothing if it is left out. insert: the new lines."
        ),
        "insert_line": Argument(
            "insert: the number of the line after which to insert; 0 for the top.", {"type": "integer"}
        ),
        "view_range": Argument(
            "view: the first and the last line to show, such as [11, 40], counted from 1; -1 as the last is "
            "the end.",
            LINE_RANGE,
        ),
    },
    _IGNORED | {"timeout", "content", "start", "end", "impl_source"},
    destructive=True,
)
_GLOB = ToolEntry(
    GlobAction,
    "Find files",
    """\
Find files by name. What comes back is a list of absolute paths, the last changed first, in pages.

A pattern without a slash matches names at any depth (*.py), one with a slash starts at path \
(src/**/test_*.py, src/{a,b}/*.ts). One that ends with a slash finds directories.""",
    {
        "pattern": Argument("The pattern: *, ?, **, [a-z], [!x], {a,b}."),
        "path": Argument(f"The directory to look in. {_FROM_SHELL}"),
        "hidden": _HIDDEN,
        "respect_gitignore": _GITIGNORE,
        "offset": _OFFSET,
        "limit": _LIMIT,
        "timeout": _SEARCH_SECONDS,
    },
    frozenset({"thought"}),
    read_only=True,
    idempotent=True,
)
_GREP = ToolEntry(
    GrepAction,
    "Search in files",
    """\
Search text files line by line for a regular expression or a plain text. What comes back are lines as \
path:line:text, in order of path and line, in pages; lines of context as path-line-text.

The expression is the common kind without lookaround and backreferences.""",
    {
        "pattern": Argument("The regular expression, or the text if literal is true."),
        "path": Argument(f"The directory or file to search. {_FROM_SHELL}"),
        "include": Argument("Search only files that this glob matches: *.py, src/**/*.{ts,tsx}."),
        "literal": Argument("Take the pattern as plain text."),
        "ignore_case": Argument("Let capital and small letters match each other."),
        "hidden": _HIDDEN,
        "respect_gitignore": _GITIGNORE,
        "context": Argument("How many lines to show around each match, at most 100."),
        "before": Argument("How many lines to show before each match, instead of context."),
        "after": Argument("How many lines to show after each match, instead of context."),
        "offset": _OFFSET,
        "limit": _LIMIT,
        "timeout": _SEARCH_SECONDS,
    },
    frozenset({"thought"}),
    read_only=True,
    idempotent=True,
)
_STAT = ToolEntry(
    StatAction,
    "Look at a path",
    "Tell what a path is: file, directory or link, its size, mode, owner and time of change.",
    {
        "path": Argument(f"The path. {_FROM_SHELL}"),
        "follow_symlinks": Argument("Look at what a link leads to; false looks at the link itself."),
    },
    frozenset({"thought", "timeout"}),
    read_only=True,
    idempotent=True,
)
_MOVE = ToolEntry(
    MoveAction,
    "Move or rename",
    "Rename or move a file, a link or a directory. A destination that is a directory receives it under its "
    "own name.",
    {
        "source": Argument(f"What to move. {_FROM_SHELL}"),
        "destination": Argument("Its new path, or the directory to move it into."),
        "overwrite": Argument("Replace a file by a file, or an empty directory by a directory."),
    },
    frozenset({"thought", "timeout"}),
    destructive=True,
)
_DELETE = ToolEntry(
    DeleteAction,
    "Delete",
    "Delete a file, a link (not what it leads to) or a directory. It cannot be undone.",
    {
        "path": Argument(f"What to delete. {_FROM_SHELL}"),
        "recursive": Argument(
            "Delete a directory with everything in it; false refuses one that is not empty."
        ),
        "missing_ok": Argument("Take it for done if nothing is there."),
    },
    frozenset({"thought", "timeout"}),
    destructive=True,
    idempotent=True,
)
_MKDIR = ToolEntry(
    MkdirAction,
    "Make a directory",
    "Make a directory. One that is there already is left as it is. (write makes the directories it needs "
    "itself.)",
    {
        "path": Argument(f"The directory. {_FROM_SHELL}"),
        "parents": Argument("Make missing parents too."),
    },
    frozenset({"thought", "timeout"}),
    idempotent=True,
)
_BROWSE = ToolEntry(
    BrowseURLAction,
    "Open a web page",
    """\
Open a page in the browser and read it: what comes back is its text, links kept, and a picture of it. The \
page stays open; to act on it, go on with browse_interactive. A link to a file downloads it, and its path \
comes back.""",
    {"url": Argument("Where to go: http://, https://, or file:// for files in the workspace.")},
    _IGNORED | {"timeout", "return_axtree"},
    idempotent=True,
    open_world=True,
)
_BROWSE_INTERACTIVE = ToolEntry(
    BrowseInteractiveAction,
    "Act on a web page",
    """\
Act on the page that is open in the browser. What comes back is its accessibility tree, in which every \
element has an id such as [12] or [a3], what went wrong, if anything did, and a picture.

Ids are for the page as it is now, so look again after it has changed. Two or three calls at once are \
fine; the first that fails ends them. A bid is the id of an element, as a string:

goto(url), go_back(), go_forward()
click(bid, button="left", modifiers=[]), dblclick(bid, button="left", modifiers=[]): buttons left, \
middle, right; modifiers Alt, Control, ControlOrMeta, Meta, Shift
fill(bid, value), clear(bid)
select_option(bid, options): an option's value or label, or a list of them
press(bid, key_comb): such as "Enter" or "Control+a"
hover(bid), focus(bid), drag_and_drop(from_bid, to_bid)
upload_file(bid, file): a path or a list of paths
scroll(delta_x, delta_y): in pixels, positive to the right and down
new_tab(), tab_focus(index), tab_close()
noop(wait_ms=1000): wait, and look at the page""",
    {
        "browser_actions": Argument(
            'The calls, one per line, such as fill("13", "Ada") and then click("16"). Arguments are '
            "literals: nothing is evaluated."
        )
    },
    _IGNORED | {"timeout", "return_axtree", "browsergym_send_msg_to_user"},
    destructive=True,
    open_world=True,
)

#: In the order in which they are listed.
CATALOGUE: tuple[ToolEntry, ...] = (
    _RUN,
    _READ,
    _WRITE,
    _EDIT,
    _GLOB,
    _GREP,
    _STAT,
    _MOVE,
    _DELETE,
    _MKDIR,
    _RUN_IPYTHON,
    _BROWSE,
    _BROWSE_INTERACTIVE,
)
