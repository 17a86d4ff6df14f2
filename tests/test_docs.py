"""The documentation names everything there is, and nothing that is not."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from glovebox import settings
from glovebox.box import plugin_life
from glovebox.errors import GloveboxError
from glovebox.protocol.openhands import Codec
from glovebox.settings.declaration import Option
from tests.support.running import RunningBox, running_box

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def error_classes(root: type[GloveboxError] = GloveboxError) -> Iterator[type[GloveboxError]]:
    for child in root.__subclasses__():
        if child.__module__ == "glovebox.errors":
            yield child
        yield from error_classes(child)


def setting_row(option: Option) -> str:
    default = " ".join(option.default) if isinstance(option.default, tuple) else str(option.default)
    shown = f"`{default}`" if default else "none"
    return f"| `{option.flag}` | `{option.variable}` | {shown} | {option.help} |"


def test_every_setting_has_its_row_and_every_row_its_setting() -> None:
    rows = [line for line in page("settings.md").splitlines() if line.startswith("| `")]
    assert rows == [setting_row(option) for option in settings.options()]


def test_every_setting_of_a_plugin_has_its_row_and_every_row_its_setting() -> None:
    rows = re.findall(r"^\| (\w+) \| `(\w+)` \| `(\w+)` \|", page("settings.md"), re.MULTILINE)
    expected = []
    for name, where in plugin_life.OWN.items():
        for field in plugin_life.load(name, where).options.__struct_fields__:
            expected.append((name, field, f"GLOVEBOX_PLUGIN_{name}_{field}".upper()))
    assert rows == expected


def test_every_action_has_a_section_and_every_section_an_action() -> None:
    described = re.findall(r"^### `(\w+)`", page("actions.md"), re.MULTILINE)
    assert sorted(described) == sorted(Codec().actions)


def test_every_argument_of_a_runnable_action_is_documented() -> None:
    text = page("actions.md")
    sections = dict(re.findall(r"^### `(\w+)`\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL))
    ignored = {"timeout", "thought", "confirmation_state", "security_risk"}
    for name in ("run", "run_ipython", "read", "write", "edit", "browse", "browse_interactive",
                 "glob", "grep", "stat", "move", "delete", "mkdir"):  # fmt: skip
        kind = Codec().actions[name]
        missing = [field for field in kind.__struct_fields__ if field not in ignored
                   and f"`{field}`" not in sections[name]]  # fmt: skip
        assert not missing, f"docs/actions.md, {name}: {missing}"


def test_every_error_code_is_documented() -> None:
    documented = re.findall(r"^\| `(\w+)` \| (?:(?:exit )?\d|host)", page("errors.md"), re.MULTILINE)
    assert sorted(documented) == sorted(error.code for error in error_classes())


def test_every_endpoint_is_documented_and_every_documented_one_is_served(full_box: RunningBox) -> None:
    served = {
        f"{method.upper()} {path}"
        for path, methods in full_box.client.get("/openapi.json").json()["paths"].items()
        for method in methods
    }
    documented = set(
        re.findall(r"^\| `((?:GET|HEAD|POST|DELETE|PUT) /\S*)` \|", page("api.md"), re.MULTILINE)
    )
    assert documented == served


def test_error_ids_of_the_file_actions_are_documented() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src/glovebox/box/files").rglob("*.py")]
    used = {code for text in sources for code in re.findall(r'FileActionError\(\s*"([a-z_]+)"', text)}
    used |= {code for text in sources for code in re.findall(r'errno\.E\w+: \(\s*"([a-z_]+)"', text)}
    documented = re.findall(r"^\| `([a-z_]+)` \| (?!\d|exit)", page("errors.md"), re.MULTILINE)
    assert used
    assert used <= set(documented)


def test_what_an_isolated_box_shares_with_the_machine_is_documented() -> None:
    heading = "## What an isolated box shares with the machine\n"
    section = page("security.md").partition(heading)[2].partition("\n## ")[0]
    for word in ("network", "loopback", "abstract sockets", "glovebox doctor"):
        assert word in section
    anchor = "security.md#what-an-isolated-box-shares-with-the-machine"
    assert all(anchor in page(name) for name in ("backends.md", "cli.md"))


def test_what_the_page_on_architecture_names_is_there() -> None:
    named = set(re.findall(r"`([\w./]+(?:/|\.(?:py|bash|js|toml)))`", page("architecture.md")))
    assert len(named) > 40
    source = ROOT / "src/glovebox"
    known = {path.name for path in source.rglob("*.*")} | {f"{path.name}/" for path in source.rglob("*")}
    missing = {name for name in named if not any((place / name).exists() for place in (ROOT, source))}
    assert sorted(missing - known) == []


@pytest.mark.parametrize("name", [*sorted(path.name for path in DOCS.glob("*.md")), "../README.md"])
def test_links_between_pages_lead_somewhere(name: str) -> None:
    base = (DOCS / name).parent
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page(name)):
        assert (base / target).exists(), f"{name}: {target}"


def test_the_ci_script_runs_the_test_command_of_the_readme() -> None:
    assert "\nmake test " in page("../README.md")
    assert (ROOT / ".ci" / "run").read_text(encoding="utf-8").rstrip().endswith("\nmake test")


def test_markers_of_tests_name_places_that_are_there() -> None:
    from tests.support.markers import PLACES, QUICK

    for place in (*QUICK, *(place for places in PLACES.values() for place in places)):
        assert list(ROOT.glob(f"{place}*" if not place.endswith("/") else place)), place


@pytest.mark.skipif(not shutil.which("curl") or not shutil.which("jq"), reason="curl or jq is not installed")
def test_the_requests_of_the_page_on_http_work_as_they_are_written(tmp_path: Path) -> None:
    snippets = re.findall(r"```sh\n(.*?)```", page("api.md"), re.DOTALL)
    fails = 'set -euo pipefail\ncurl() { command curl --fail --show-error "$@"; }\n'
    with running_box(tmp_path / "workspace", "--plugins", "jupyter", key="") as box:
        script = fails + "".join(f"{snippet}\necho '<end>'\n" for snippet in snippets)
        script = script.replace("http://127.0.0.1:8000", box.url).replace("/tmp/in", f"{tmp_path}/in")
        done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    first = done.stdout.partition("<end>")[0]
    shown = json.dumps(f"{tmp_path}/workspace/demo\n"), '"stdout":"42\\n"', "some text\n", "Hello, Ada\\n"
    assert all(expected in first for expected in (*shown, "event: end\n"))
    assert done.stdout.count("<end>") == len(snippets)
    assert all((tmp_path / name).stat().st_size for name in ("build.log", "in.zip", "notes.txt", "out.tar"))
