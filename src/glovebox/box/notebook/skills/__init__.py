"""The functions an agent has in its IPython kernel.

They run in the kernel's process, and every kernel imports this module at its start. That has to cost next to
nothing, so a function loads what it needs when it is first called. Annotations are real objects, not text:
`help` shows them.
"""

# This runs in a kernel, which has no settings but its environment.
from os import environ as _environ  # noqa: TID251

__all__ = [
    "file_editor",
    "find_file",
    "goto_line",
    "open_file",
    "parse_docx",
    "parse_latex",
    "parse_pdf",
    "parse_pptx",
    "scroll_down",
    "scroll_up",
    "search_dir",
    "search_file",
]

if _environ.get("OPENAI_API_KEY") or _environ.get("SANDBOX_ENV_OPENAI_API_KEY"):
    __all__ += ["parse_audio", "parse_image", "parse_video"]


def open_file(path: str, line_number: int | None = 1, context_lines: int | None = 100) -> None:
    """Open a text file and show the lines around one of them.

    The file stays open for goto_line, scroll_down, scroll_up and search_file.

    Args:
        path: the file; a relative path starts at the current directory.
        line_number: the line to have in the middle, from 1.
        context_lines: how many lines to show, at most 100.
    """
    from glovebox.box.notebook.skills import text_files

    text_files.open_file(path, line_number, context_lines)


def goto_line(line_number: int) -> None:
    """Show the 100 lines around a line of the open file.

    Args:
        line_number: the line to have in the middle, from 1.
    """
    from glovebox.box.notebook.skills import text_files

    text_files.goto_line(line_number)


def scroll_down() -> None:
    """Show the next 100 lines of the open file."""
    from glovebox.box.notebook.skills import text_files

    text_files.scroll_down()


def scroll_up() -> None:
    """Show the previous 100 lines of the open file."""
    from glovebox.box.notebook.skills import text_files

    text_files.scroll_up()


def search_dir(search_term: str, dir_path: str = "./") -> None:
    """Show every line with a text in the files below a directory.

    Files whose names start with a dot are left out. If more than 100 files have it, only that is said.

    Args:
        search_term: the text, taken literally; upper and lower case matter.
        dir_path: where to search.
    """
    from glovebox.box.notebook.skills import text_files

    text_files.search_dir(search_term, dir_path)


def search_file(search_term: str, file_path: str | None = None) -> None:
    """Show every line with a text in one file.

    Args:
        search_term: the text, taken literally; upper and lower case matter.
        file_path: the file; without it, the file that open_file has opened.
    """
    from glovebox.box.notebook.skills import text_files

    text_files.search_file(search_term, file_path)


def find_file(file_name: str, dir_path: str = "./") -> None:
    """Show the paths of all files below a directory whose name has a text in it.

    Args:
        file_name: the name or a part of it, taken literally.
        dir_path: where to search.
    """
    from glovebox.box.notebook.skills import text_files

    text_files.find_file(file_name, dir_path)


def parse_pdf(file_path: str) -> None:
    """Show the text of a PDF file, page by page.

    Args:
        file_path: the file.
    """
    from glovebox.box.notebook.skills import documents

    documents.parse_pdf(file_path)


def parse_docx(file_path: str) -> None:
    """Show the text of a Word file, each paragraph under its number.

    Args:
        file_path: the file.
    """
    from glovebox.box.notebook.skills import documents

    documents.parse_docx(file_path)


def parse_latex(file_path: str) -> None:
    """Show a LaTeX file as plain text.

    Args:
        file_path: the file.
    """
    from glovebox.box.notebook.skills import documents

    documents.parse_latex(file_path)


def parse_pptx(file_path: str) -> None:
    """Show the text of a PowerPoint file, slide by slide.

    Args:
        file_path: the file.
    """
    from glovebox.box.notebook.skills import documents

    documents.parse_pptx(file_path)


def parse_audio(file_path: str, model: str = "whisper-1") -> None:
    """Show what is said in a sound file, in English.

    Args:
        file_path: the file.
        model: which model listens.
    """
    from glovebox.box.notebook.skills import media

    media.parse_audio(file_path, model)


def parse_image(file_path: str, task: str = "Describe this image as detail as possible.") -> None:
    """Ask a model about a picture and show its answer.

    Args:
        file_path: the file.
        task: what to ask.
    """
    from glovebox.box.notebook.skills import media

    media.parse_image(file_path, task)


def parse_video(
    file_path: str, task: str = "Describe this image as detail as possible.", frame_interval: int = 30
) -> None:
    """Ask a model about single frames of a video and show its answers.

    Args:
        file_path: the file.
        task: what to ask about each frame.
        frame_interval: how far apart the frames are, in steps of 10 frames. Where that would be more than
            30 of them, they are taken further apart.
    """
    from glovebox.box.notebook.skills import media

    media.parse_video(file_path, task, frame_interval)


def file_editor(
    command: str,
    path: str,
    file_text: str | None = None,
    view_range: list[int] | None = None,
    old_str: str | None = None,
    new_str: str | None = None,
    insert_line: int | None = None,
    enable_linting: bool = False,
) -> str:
    """View, create or change a file, and return what came of it: JSON between two tags.

    Args:
        command: "view", "create", "str_replace", "insert" or "undo_edit".
        path: the file, or for "view" also a directory; must be absolute.
        file_text: for "create", the whole content.
        view_range: for "view", the first and the last line, from 1; -1 is the end of the file.
        old_str: for "str_replace", the text to replace, which must be in the file exactly once.
        new_str: for "str_replace", what to put in its place; for "insert", the lines to put in.
        insert_line: for "insert", the line after which to put them; 0 is the beginning of the file.
        enable_linting: also report problems that a change brings into a Python file.
    """
    # The editor is of another capability, and those never import each other. In a kernel both are only
    # libraries: this loads the editor where it is used, and no server comes along.
    from importlib import import_module

    editor = import_module("glovebox.box.files.editor.in_kernel")
    answer: str = editor.file_editor(
        command, path, file_text, view_range, old_str, new_str, insert_line, enable_linting
    )
    return answer
