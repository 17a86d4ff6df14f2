"""Windows with several folders, or with none."""

from __future__ import annotations

import json

from glovebox import BoxSpec, SyncRuntime
from glovebox.protocol.observations import ErrorObservation
from tests.support.running import wait_until
from tests.vscode.harness.workstation import Workstation


def test_a_workspace_of_several_folders_is_one_box_with_all_of_them(workstation: Workstation) -> None:
    first, second = (
        workstation.folder("first", {"a.txt": "a\n"}),
        workstation.folder("second", {"b.txt": "b\n"}),
    )
    outside = workstation.folder("neither", {"c.txt": "c\n"})
    workspace = workstation.place / "both.code-workspace"
    workspace.write_text(json.dumps({"folders": [{"path": "first"}, {"path": "second", "name": "Two"}]}))
    with workstation.window(first, workspace=workspace) as window:
        window.connect()
        (listed,) = workstation.hub.windows(first)
        assert [folder["path"] for folder in listed["folders"]] == [str(first), str(second)]
        assert [folder["name"] for folder in listed["folders"]] == ["first", "Two"]
        window.folder = second
        with window.agent() as agent:
            assert agent.read(str(second / "b.txt")).content == "b\n"
            assert agent.read("a.txt").content == "a\n"
            agent.write(str(second / "new.txt"), "new")
            assert (second / "new.txt").read_text() == "new\n"
            refused = agent.read(str(outside / "c.txt"))
            assert isinstance(refused, ErrorObservation)
            assert refused.error_id == "outside_workspace"
            assert str(first) in refused.content
            assert agent.run("pwd").content == str(first)


def test_a_window_without_a_folder_is_listed_and_says_what_is_missing(workstation: Workstation) -> None:
    def empty() -> list[str]:
        listed = workstation.hub.windows()
        return [one["id"] for one in listed if one["folders"] == [] and one["status"] == "connected"]

    with workstation.empty_window() as window:
        window.command("Glovebox: Connect")
        wait_until(lambda: len(empty()) == 1, what="a window without a folder")
        spec = BoxSpec(name=empty()[0])
        new = workstation.place / "new.txt"
        with SyncRuntime("vscode", spec, settings=workstation.hub.settings, patience=2) as agent:
            for refused in (agent.run("pwd"), agent.read("/etc/hostname"), agent.write(str(new), "new")):
                assert isinstance(refused, ErrorObservation), refused
                assert refused.error_id == "no_folder"
                assert "No folder is open in this window" in refused.content
        assert not new.exists()
