"""`glovebox vscode`: the VS Code server that boxes show their workspace with, and where a box has it."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glovebox.cli.options import FAILED, Commands, add_parser

if TYPE_CHECKING:
    from collections.abc import Mapping

EXAMPLES = """\
examples:
  glovebox vscode install                  get a server from npm, for this user's boxes
  glovebox vscode install --to /opt/vscode  the same for everybody: GLOVEBOX_VSCODE=/opt/vscode
  glovebox vscode path                     the server that a box of this user would take
  glovebox vscode url                      where to open the VS Code of the box on 127.0.0.1:8000
  glovebox vscode uninstall                remove what was installed

A box with VS Code: glovebox serve --plugins vscode
"""
#: Seconds that a box may take to answer.
_LIMIT = 30.0


def add_command(commands: Commands) -> None:
    parser = add_parser(
        commands,
        "vscode",
        help="install the VS Code server of boxes",
        description="Boxes with the plugin vscode show their workspace in VS Code, in a web browser. "
        "This installs the server for that, and says where it is.",
        examples=EXAMPLES,
    )
    parser.add_argument("verb", choices=list(_VERBS), help="What to do.")
    parser.add_argument(
        "--to",
        type=Path,
        metavar="DIR",
        help="Where it is installed, or removed from. Default: ~/.local/share/glovebox/vscode.",
    )
    parser.add_argument("--force", action="store_true", help="Install it anew although it is there.")
    parser.add_argument(
        "--own-node",
        action="store_true",
        help="Bring a node along although this machine's would do: for a directory that is copied elsewhere.",
    )
    parser.add_argument("--url", help="Address of the box. Default: http://127.0.0.1:8000. [GLOVEBOX_URL]")
    parser.add_argument(
        "--session-api-key-file", metavar="FILE", help="A file that holds the key. [SESSION_API_KEY: the key]"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Do what was said, or say why it cannot be done."""
    from glovebox.errors import GloveboxError
    from glovebox.settings import host

    try:
        _VERBS[arguments.verb](arguments, host.load().environment)
    except GloveboxError as error:
        print(f"glovebox: {error}", file=sys.stderr)
        return FAILED
    return 0


def _install(arguments: argparse.Namespace, environment: Mapping[str, str]) -> None:
    from glovebox.box.vscode import installer
    from glovebox.box.vscode.installation import installed_at

    directory: Path = (arguments.to or installed_at(environment)).absolute()
    there = installer.installed(directory)
    as_wanted = there and there.version == installer.VERSION and not (there.node and arguments.own_node)
    if there and as_wanted and not arguments.force:
        print(f"{directory} has VS Code's server of {installer.PACKAGE} {there.version} already.")
        return
    began = time.monotonic()
    record = installer.install(directory, environment, _tell, own_node=arguments.own_node)
    seconds, size = time.monotonic() - began, _size(directory) / 1e6
    print(f"{directory} ({size:.0f} MB, {installer.PACKAGE} {record.version}, installed in {seconds:.0f} s)")
    print(f"It runs with {record.node or 'a node of its own'}.")
    if directory != installed_at(environment):
        print(f"Tell boxes where it is: export GLOVEBOX_VSCODE={directory}")


def _path(arguments: argparse.Namespace, environment: Mapping[str, str]) -> None:
    from glovebox.box.vscode.installation import find_server

    print(find_server(environment.get("GLOVEBOX_VSCODE", ""), environment).place)


def _uninstall(arguments: argparse.Namespace, environment: Mapping[str, str]) -> None:
    from glovebox.box.vscode.installation import installed_at
    from glovebox.box.vscode.installer import uninstall

    directory: Path = (arguments.to or installed_at(environment)).absolute()
    print(f"{directory} is removed." if uninstall(directory) else f"There is nothing at {directory}.")


def _url(arguments: argparse.Namespace, environment: Mapping[str, str]) -> None:
    from urllib.parse import quote, urlsplit

    from glovebox import settings
    from glovebox.errors import PluginFailed

    address, key = settings.client(arguments.url, arguments.session_api_key_file)
    token = _get_json(f"{address.rstrip('/')}/vscode/connection_token", key)["token"]
    plugin = _get_json(f"{address.rstrip('/')}/plugins/vscode", key)
    if not token:
        raise PluginFailed(f"VS Code cannot be opened. {plugin['error']}")
    known, host = plugin["health"], urlsplit(address).hostname or ""
    host = f"[{host}]" if ":" in host else host
    print(f"http://{host}:{known['port']}{known['path']}/?tkn={token}&folder={quote(known['folder'])}")


def _get_json(url: str, key: str) -> dict[str, Any]:
    """What a box answers to a question.

    Raises:
        BoxUnreachable: it does not answer.
        PluginFailed: it answers that it cannot.
    """
    import json
    import urllib.error
    import urllib.request

    from glovebox.errors import BoxUnreachable, PluginFailed

    if not url.startswith(("http://", "https://")):
        raise BoxUnreachable(f"{url} is not the address of a box.")
    request = urllib.request.Request(url, headers={"X-Session-API-Key": key} if key else {})  # noqa: S310
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=_LIMIT) as answer:
            content: dict[str, Any] = json.load(answer)
            return content
    except urllib.error.HTTPError as error:
        said = error.read().decode("utf-8", "replace")
        raise PluginFailed(
            f"{url} answers with status {error.code}: {said} (Is the plugin vscode loaded, is the key right?)"
        ) from error
    except (OSError, ValueError) as error:
        raise BoxUnreachable(f"Nothing that is a box answers at {url}: {error}") from error


def _tell(step: str, done: int, total: int) -> None:
    print(f"{done}/{total} {step}", file=sys.stderr, flush=True)


def _size(directory: Path) -> int:
    return sum(file.lstat().st_size for file in directory.rglob("*") if not file.is_dir())


_VERBS = {"install": _install, "path": _path, "url": _url, "uninstall": _uninstall}
