"""The bundle in a file system that has nothing else, where every program and library has to be its own."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

import glovebox
from glovebox.bundle import ROOT, digest, manifest
from glovebox.errors import NoBundle
from tests.box.notebook.cells import Cells
from tests.box.notebook.test_environment import make_wheel
from tests.bundle.images import EmptyImage, make_empty_image
from tests.support.running import RunningBox
from tests.test_packages import binds

PYTHON = f"{ROOT}/bin/python3"
LOADED = """
import ssl, sqlite3, lzma, bz2, ctypes, zlib, readline, uvloop, zmq, msgspec
for line in open("/proc/self/maps"):
    if "/" in line and ".so" in line:
        print(line.split()[5])
"""


@pytest.fixture(scope="module")
def box(image: EmptyImage) -> Iterator[RunningBox]:
    flags = ("--plugins", "agent_skills", "--username", "worker", "--user-id", "1234")
    with image.box(*flags, LD_LIBRARY_PATH="/lib", PYTHONHOME="/usr") as box:
        yield box


def test_it_says_what_it_is(bundle: Path) -> None:
    said = manifest(bundle)
    assert said.version == glovebox.__version__
    assert said.machine == os.uname().machine
    assert digest(bundle) == said.digest


def test_it_is_small_and_everyone_may_read_it_and_root_owns_it(bundle: Path) -> None:
    with tarfile.open(bundle, "r:") as archive:
        members = archive.getmembers()
    assert sum(member.size for member in members) < 150e6
    assert {(member.uid, member.gid) for member in members} == {(0, 0)}
    assert {member.mode for member in members if not member.issym()} == {0o755, 0o644}
    assert not any(member.name.startswith(("/", "..")) for member in members)


def test_it_has_licences_and_none_is_the_gpl(bundle: Path) -> None:
    told: dict[str, Message] = {}
    with tarfile.open(bundle, "r:") as archive:
        for member in archive.getmembers():
            if member.name.endswith(".dist-info/METADATA") and (file := archive.extractfile(member)):
                told[Path(member.name).parent.name] = message_from_bytes(file.read())
        own = next(name for name in told if name.startswith("glovebox_runtime-"))
        kept = next(name for name in archive.getnames() if name.endswith(f"/{own}/licenses/LICENSE"))
        file = archive.extractfile(kept)
        assert file is not None
        assert b"Copyright (c) 2026 the Glovebox authors" in file.read()
    assert len(told) > 40
    assert [name for name, metadata in told.items() if binds(metadata)] == []


def test_what_is_no_bundle_is_refused(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.tar"
    wrong.write_bytes(b"not a tar")
    with pytest.raises(NoBundle, match="is not a bundle"):
        manifest(wrong)
    with tarfile.open(wrong, "w") as archive:
        archive.add(__file__, "other")
    with pytest.raises(NoBundle, match="not one that `glovebox bundle` made"):
        manifest(wrong)


def test_every_library_is_its_own(image: EmptyImage) -> None:
    wrong = image.root / "lib"
    wrong.mkdir()
    for name in ("libc.so.6", "libssl.so.3", "libz.so.1"):
        (wrong / name).write_text("of another system")
    loaded = image.run(PYTHON, "-c", LOADED, LD_LIBRARY_PATH="/lib").split()
    assert any("libssl" in path for path in loaded)
    assert [path for path in loaded if not path.startswith(f"{ROOT}/")] == []


@pytest.mark.parametrize("language", ["", "C.UTF-8", "en_US.UTF-8"])
def test_python_speaks_utf8_where_there_are_no_locales(image: EmptyImage, language: str) -> None:
    ask = "import locale, sys; print(sys.getfilesystemencoding(), locale.getpreferredencoding(), 'ü')"
    assert image.run(PYTHON, "-c", ask, LANG=language).lower().split() == ["utf-8", "utf-8", "ü"]


def test_python_has_certificates_where_the_image_has_none(image: EmptyImage) -> None:
    ask = "import ssl; print(len(ssl.create_default_context().get_ca_certs()) > 0)"
    assert image.run(PYTHON, "-c", ask) == "True\n"


def test_certificates_of_the_image_come_first(image: EmptyImage) -> None:
    kept = image.root / "etc/ssl/certs/ca-certificates.crt"
    kept.parent.mkdir(parents=True)
    kept.write_text("")
    ask = "import ssl; ssl.create_default_context()"
    with pytest.raises(AssertionError, match="NO_CERTIFICATE_OR_CRL_FOUND"):
        image.run(PYTHON, "-c", ask)
    image.run(PYTHON, "-c", ask, SSL_CERT_FILE="/nowhere")
    kept.unlink()


def test_bytecode_is_there_and_names_where_it_is(image: EmptyImage) -> None:
    ask = "import glovebox.cli.main as m; print(m.__cached__, m.main.__code__.co_filename)"
    cached, source = image.run(PYTHON, "-c", ask).split()
    assert (image.root / cached.lstrip("/")).is_file()
    assert source == f"{ROOT}/lib/{Path(source).relative_to(f'{ROOT}/lib')}"
    assert (image.root / source.lstrip("/")).is_file()


def test_a_box_runs_commands_where_there_is_no_shell(box: RunningBox) -> None:
    assert box.run("echo $((6 * 7)) in $BASH") == f"42 in {ROOT}/tools/bash"


def test_commands_find_the_shell_last_and_nothing_else_of_the_runtime(box: RunningBox) -> None:
    assert box.run("echo $PATH") == f"/usr/bin:/bin:{ROOT}/tools"
    assert box.run("echo $LD_LIBRARY_PATH") == "/lib"
    assert box.run("echo ${PYTHONPATH-none} $PYTHONHOME") == "none /usr"


def test_a_user_is_made_where_no_program_makes_users(box: RunningBox, image: EmptyImage) -> None:
    assert box.run("echo $EUID $HOME") == "1234 /home/worker"
    assert (image.root / "home/worker").stat().st_uid == 1234
    assert f"worker:x:1234:1234::/home/worker:{ROOT}/tools/bash\n" in (image.root / "etc/passwd").read_text()
    assert "worker:x:1234:\n" in (image.root / "etc/group").read_text()
    assert not (image.root / "etc/sudoers").exists()


def test_files_are_edited(box: RunningBox) -> None:
    box.execute("write", path="/workspace/a.txt", content="one\n")
    assert box.execute("read", path="/workspace/a.txt")["content"] == "one\n\n"


def test_files_are_searched_with_a_ripgrep_of_its_own(box: RunningBox) -> None:
    box.execute("write", path="/workspace/searched.txt", content="a needle\n")
    found = box.execute("grep", pattern=r"ne{2}dle$", path="/workspace")
    assert found["content"] == "/workspace/searched.txt:1:a needle"
    assert "no rg" in box.run("type rg || echo no rg")


def test_a_shell_of_the_image_is_preferred(image: EmptyImage) -> None:
    (image.root / "bin").mkdir()
    (image.root / "bin/bash").symlink_to(f"{ROOT}/tools/bash")
    with image.box() as box:
        assert box.run("echo $BASH $PATH") == "/bin/bash /usr/bin:/bin"
    (image.root / "bin/bash").unlink()


def test_cells_install_packages_over_those_of_the_bundle(bundle: Path, tmp_path: Path) -> None:
    image = make_empty_image(tmp_path / "image", bundle)
    (image.root / "bin").mkdir(exist_ok=True)
    (image.root / "bin/sh").symlink_to(f"{ROOT}/tools/bash")
    wheel = make_wheel(image.root / "tmp", "mine")
    with image.box("--plugins", "jupyter", "--username", "worker", "--user-id", "1234") as box:
        cells = Cells(box)
        assert "Successfully installed mine-1" in cells.run(f"%pip install --no-index /tmp/{wheel.name}")
        home = "/home/worker/.local/share/glovebox/kernel-"
        assert cells.run("import mine; print(mine.__file__)").startswith(home)
