"""Ways to get at files through the file viewer that its user may not read, and at the key of the box."""

from __future__ import annotations

import base64
import contextlib
import errno
import itertools
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from glovebox.server.viewer import safe_open
from tests.server.test_viewer import PNG
from tests.server.test_viewer_pdf import SLOW, VERSION, arguments
from tests.server.viewer_server import running_viewer
from tests.support.running import KEY, RunningBox, running_box, wait_until
from tests.support.users import public_directory, usable_interpreter

pytestmark = pytest.mark.attack
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else, too")

NOBODY = 65534
SECRET = "for-root-alone-0815"
#: A file that could be shown, if its owner wanted it to be.
SECRET_PICTURE = PNG + SECRET.encode()

#: Asks a viewer for paths and prints what there was: what is asked, its status, and all that it reveals.
VIEW = """
import base64, json, re, sys, urllib.error, urllib.parse, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
addresses, headers = json.load(sys.stdin)
for address in addresses:
    try:
        answer = opener.open(urllib.request.Request(address, headers=headers), timeout=30)
    except urllib.error.HTTPError as error:
        answer = error
    text = answer.read().decode(errors="replace")
    carried = re.findall('fileBase64 = "([^"]*)"', text)
    text += base64.b64decode(carried[0]).decode(errors="replace") if carried else ""
    print(json.dumps([address, answer.status, text]))
"""


class Seen(NamedTuple):
    """What somebody got for an address."""

    address: str
    status: int
    text: str


def as_nobody(*command: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """What another user of the machine does."""
    return subprocess.run(
        command,
        input=given,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        cwd="/",
        env={"PATH": os.defpath},
        capture_output=True,
        text=True,
        check=False,
    )


def asked_by_nobody(addresses: list[str]) -> list[Seen]:
    """What another user of the machine is answered."""
    done = as_nobody(usable_interpreter("nobody", "json"), "-c", VIEW, given=json.dumps([addresses, {}]))
    assert done.returncode == 0, done.stderr
    return [Seen(*json.loads(line)) for line in done.stdout.splitlines()]


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory of root's that everybody can enter."""
    with public_directory() as directory:
        yield directory


@pytest.fixture
def room(public: Path) -> Path:
    """A directory in it that everybody can write to."""
    room = public / "room"
    room.mkdir()
    room.chmod(0o777)
    return room


def url_file(box: RunningBox) -> Path:
    return box.workspace.parent / f"{box.workspace.name}-viewer-url"


def planted(room: Path, server: int) -> list[str]:
    """Paths that lead to the environment of a server, or to files of root, made by another user."""
    targets = {
        "environ": f"/proc/{server}/environ",
        "process": f"/proc/{server}",
        "secret.png": room.parent / "secret.png",
        "directory": room.parent,
    }
    for name, target in targets.items():
        done = as_nobody("ln", "-s", str(target), f"{room}/{name}")
        assert done.returncode == 0, done.stderr
    for name in ("y.pdf", "y.png"):
        assert as_nobody("ln", "-s", f"/proc/{server}/environ", f"{room}/{name}").returncode == 0
    as_nobody("ln", f"{room.parent}/secret.png", f"{room}/hard.png")  # which the kernel may forbid
    return [
        f"{room}/y.pdf",
        f"{room}/y.png",
        f"{room}/environ",
        f"{room}/process/environ",
        f"{room}/secret.png",
        f"{room}/hard.png",
        f"{room}/directory/secret.png",
        f"{room}/directory/../secret.png",
        f"{room.parent}/secret.png",
        f"{room.parent}/secret.pdf",
        f"/proc/{server}/environ",
        f"/proc/{server}/root{room.parent}/secret.png",
        f"/proc/{server}/cwd/../secret.png",
        "/proc/self/environ",
        "/proc/thread-self/environ",
        "/dev/fd/0",
    ]


@pytest.fixture
def secrets_of_root(room: Path) -> None:
    """Files that only root can read; one has the wrong name."""
    for name in ("secret.png", "secret.pdf"):
        (room.parent / name).write_bytes(SECRET_PICTURE if name.endswith("png") else SECRET.encode())
        (room.parent / name).chmod(0o600)


@as_root
@pytest.mark.usefixtures("secrets_of_root")
def test_another_user_of_the_machine_gets_neither_a_file_nor_the_key(room: Path, public: Path) -> None:
    with running_box(public / "workspace") as box:
        port = urlsplit(url_file(box).read_text()).port
        base = f"http://127.0.0.1:{port}"
        addresses = [f"{base}/view?path={path}" for path in planted(room, box.process.pid)]
        addresses += [f"{base}/page?path={room}/y.pdf&number=1&version=", base, f"{base}/", f"{base}//"]
        addresses += [
            f"{base}/{guess}/view?path={room}/y.pdf" for guess in ("", ".", "..", "%00", "x", "a" * 43)
        ]
        seen = asked_by_nobody(addresses)
        assert {answer.status for answer in seen} == {404}
        assert {answer.text for answer in seen} == {'{"detail":"Not Found"}'}
        read = as_nobody("cat", str(url_file(box)))
        assert (read.stdout, "Permission denied" in read.stderr) == ("", True)
        told = [*(answer.text for answer in seen), read.stderr]
        assert not any(KEY in text for text in told)
        # Without the key the way ends here.
        found = [key for text in told for key in re.findall(r"SESSION_API_KEY=(\w+)", text)]
        for key in (*found, ""):
            body = {"action": {"action": "run", "args": {"command": "id"}}}
            headers = {"X-Session-API-Key": key}
            answer = httpx.post(f"{box.url}/execute_action", json=body, headers=headers, trust_env=False)
            assert answer.status_code == 403


class Boxed(NamedTuple):
    """A box of root's whose commands run as another user, and what these know."""

    box: RunningBox
    viewer: str


@pytest.fixture
def boxed(public: Path) -> Iterator[Boxed]:
    announced = public / "announced"
    announced.mkdir()
    announced.chmod(0o1777)  # as /tmp
    file = announced / "oh-server-url"
    environment = {"GLOVEBOX_VIEWER_URL_FILE": str(file)}
    with running_box(public / "workspace", "--username", "nobody", environment=environment) as box:
        yield Boxed(box, box.run(f"cat {file}").replace("localhost", "127.0.0.1"))


@as_root
@pytest.mark.usefixtures("secrets_of_root")
def test_a_program_of_the_box_sees_what_its_user_may_see_and_nothing_more(
    room: Path, public: Path, boxed: Boxed
) -> None:
    boxed.box.run(f"echo {base64.b64encode(PNG).decode()} | base64 -d > {room}/own.png")
    [own] = asked_by_nobody([f"{boxed.viewer}/view?path={room}/own.png"])
    assert own.status == 200
    os.link(public / "secret.png", room / "linked.png")  # as if the kernel let everybody do that
    paths = [*planted(room, boxed.box.process.pid), f"{room}/linked.png"]
    seen = asked_by_nobody([f"{boxed.viewer}/view?path={path}" for path in paths])
    texts = {answer.address.rpartition("=")[2]: answer.text for answer in seen}
    seen += asked_by_nobody([f"{boxed.viewer}/page?path={room}/y.pdf&number=1&version="])
    for answer in seen:
        assert answer.status in (404, 500), answer
        assert KEY not in answer.text
        assert SECRET not in answer.text
    assert "Symbolic links are not followed" in texts[f"{room}/y.pdf"]
    assert "Permission denied" in texts[f"{room}/linked.png"]
    assert "Permission denied" in texts[f"{public}/secret.png"]


@as_root
def test_a_process_that_reads_a_pdf_has_the_rights_of_the_sandbox_user_and_no_key(boxed: Boxed) -> None:
    path = boxed.box.workspace / "a.pdf"
    path.write_bytes(SLOW)
    path.chmod(0o644)

    def readers() -> list[psutil.Process]:
        children = psutil.Process(boxed.box.process.pid).children()
        return [child for child in children if "picture" in arguments(child)]

    with httpx.Client(base_url=boxed.viewer, timeout=60, trust_env=False) as client:
        page = client.get("/view", params={"path": str(path)}).text
        query = {"path": str(path), "number": 1, "version": VERSION.findall(page)[0]}
        drawing = threading.Thread(target=client.get, args=("/page",), kwargs={"params": query})
        drawing.start()
        try:
            wait_until(lambda: bool(readers()), 60, "a reader")
            [reader] = readers()
            wait_until(lambda: reader.uids() == (NOBODY,) * 3, 60, "a reader without rights")
            assert reader.gids() == (NOBODY,) * 3
            status = Path(f"/proc/{reader.pid}/status").read_text()
            assert re.search(r"^Groups:\s*$", status, re.MULTILINE)
            assert re.search(r"^CapEff:\s0+$", status, re.MULTILINE)
            assert KEY.encode() not in Path(f"/proc/{reader.pid}/environ").read_bytes()
        finally:
            for process in readers():
                process.kill()
            drawing.join()


async def test_the_token_cannot_be_guessed_or_gone_around(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(SECRET_PICTURE)
    async with running_viewer(tmp_path) as (viewer, client):
        token = viewer.url.rpartition("/")[2]
        query = f"view?path={tmp_path}/a.png"
        assert (await client.get(f"/{query}")).status_code == 200
        root = f"http://127.0.0.1:{viewer.port}"
        guesses = [token[:-1], token[1:], f"{token}x", token.swapcase(), token.upper(), f"x/{token}"]
        guesses += [
            f"/{token}",
            f"{token}%2f",
            f"%00{token}",
            f"{token}%00",
            "*",
            "%2a",
            "None",
        ]
        guesses += [os.urandom(32).hex() for _ in range(200)]
        for guess in guesses:
            if guess == token:  # one without letters, say
                continue
            answer = await client.get(f"{root}/{guess}/{query}")
            assert (answer.status_code, answer.text) == (404, '{"detail":"Not Found"}'), guess
        for path in ("", "/", f"/{query}", "/page", "/docs", "/openapi.json"):
            for method in ("GET", "HEAD", "POST", "OPTIONS"):
                answer = await client.request(method, f"{root}{path}")
                assert answer.status_code == 404, (method, path)


#: Makes links to what is secret of `file.png` and `way`, and undoes it, all the time.
SWAP = """
import os, sys
os.chdir(sys.argv[1])
print(flush=True)
while True:
    os.symlink("secret/file.png", "spare")
    os.rename("spare", "file.png")
    os.rename("way", "plain")
    os.symlink("secret", "way")
    os.link("model.png", "spare")
    os.rename("spare", "file.png")
    os.unlink("way")
    os.rename("plain", "way")
"""


@contextlib.contextmanager
def swapping(directory: Path) -> Iterator[None]:
    """A process that replaces a file and a directory by links again and again."""
    for name, content in {"secret": SECRET_PICTURE, "way": PNG}.items():
        (directory / name).mkdir()
        (directory / name / "file.png").write_bytes(content)
    for name in ("model.png", "file.png"):
        (directory / name).write_bytes(PNG)
    with subprocess.Popen([sys.executable, "-c", SWAP, directory], stdout=subprocess.PIPE) as swapper:
        assert swapper.stdout is not None
        swapper.stdout.readline()
        try:
            yield
            assert swapper.poll() is None
        finally:
            swapper.kill()


def attempts(least: int, seen: Container[object], wanted: Iterable[object]) -> Iterator[int]:
    """Some tries, and more until everything that is wanted was seen, or a minute is over."""
    deadline = time.monotonic() + 60
    for number in itertools.count():
        if number >= least and (all(one in seen for one in wanted) or time.monotonic() > deadline):
            return
        yield number


async def test_a_file_that_becomes_a_link_while_it_is_looked_at_is_not_followed(tmp_path: Path) -> None:
    seen: set[int] = set()
    async with running_viewer(tmp_path) as (_, client):
        with swapping(tmp_path):
            for number in attempts(600, seen, [200, 500]):
                path = tmp_path / ("way/file.png" if number % 2 else "file.png")
                answer = await client.get("/view", params={"path": str(path)})
                assert base64.b64encode(SECRET_PICTURE).decode() not in answer.text
                seen.add(answer.status_code)
    assert {200, 500} <= seen <= {200, 404, 500}


@pytest.mark.parametrize("path", ["file.png", "way/file.png", "way/../file.png"])
@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_PATH])
@pytest.mark.parametrize("call", [safe_open.open_without_links, safe_open.walk])
def test_neither_way_to_open_follows_a_link_that_comes_between(
    tmp_path: Path, path: str, flags: int, call: Callable[[str, int], int]
) -> None:
    seen: set[int | None] = set()
    with swapping(tmp_path):
        for _ in attempts(2000, seen, [0, errno.ELOOP]):
            try:
                descriptor = call(f"{tmp_path}/{path}", flags)
            except OSError as error:
                seen.add(error.errno)
                continue
            seen.add(0)
            size = os.fstat(descriptor).st_size
            os.close(descriptor)
            assert size == len(PNG)
    assert {0, errno.ELOOP} <= seen <= {0, errno.ELOOP, errno.ENOENT, errno.ENOTDIR}


@pytest.mark.parametrize("call", [safe_open.open_without_links, safe_open.walk])
def test_both_ways_to_open_agree(tmp_path: Path, call: Callable[[str, int], int]) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "directory" / "file").touch()
    (tmp_path / "link").symlink_to("directory")
    (tmp_path / "directory" / "link").symlink_to("file")
    (tmp_path / "dangling").symlink_to("nowhere")

    def outcome(path: str, flags: int) -> str:
        try:
            descriptor = call(path, flags)
        except OSError as error:
            return errno.errorcode[error.errno or 0]
        except ValueError:
            return "no path"
        here = os.readlink(f"/proc/self/fd/{descriptor}")
        os.close(descriptor)
        return here.removeprefix(str(tmp_path))

    for path, expected in {
        f"{tmp_path}/directory/file": "/directory/file",
        f"/{tmp_path}//directory/./file": "/directory/file",
        f"{tmp_path}/directory/../directory/file": "/directory/file",
        f"{tmp_path}/directory/": "/directory",
        f"{tmp_path}/directory/.": "/directory",
        f"{tmp_path}/directory/..": "",
        f"{tmp_path}/directory/file/": "ENOTDIR",
        f"{tmp_path}/directory/file/x": "ENOTDIR",
        f"{tmp_path}/directory/none": "ENOENT",
        f"{tmp_path}/link": "ELOOP",
        f"{tmp_path}/link/": "ELOOP",
        f"{tmp_path}/link/file": "ELOOP",
        f"{tmp_path}/directory/link": "ELOOP",
        f"{tmp_path}/dangling": "ELOOP",
        "/proc/self/cwd": "ELOOP",
        f"/proc/{os.getpid()}/root": "ELOOP",
        f"/proc/{os.getpid()}/root/etc": "ELOOP",
        "/": "/",
        "/nul\0": "no path",
        f"/{'x' * 300}": "ENAMETOOLONG",
    }.items():
        for flags in (os.O_RDONLY, os.O_PATH):
            assert outcome(path, flags) == expected, (path, flags)


@pytest.mark.parametrize(
    "path", ["/proc/version", "/proc/{pid}/environ", "/sys/kernel", "/dev/null", "/dev/pts"]
)
def test_what_the_kernel_makes_up_is_known_whatever_it_is_called(path: str) -> None:
    path = path.format(pid=os.getpid())
    if not os.path.exists(path):
        pytest.skip(f"there is no {path}")
    descriptor = safe_open.open_without_links(path, os.O_PATH)
    try:
        assert safe_open.is_of_kernel(descriptor)
    finally:
        os.close(descriptor)


def test_ordinary_files_are_not_the_kernels(tmp_path: Path) -> None:
    for path in (str(tmp_path), "/", "/etc/passwd", "/usr"):
        descriptor = safe_open.open_without_links(os.path.realpath(path), os.O_PATH)
        try:
            assert not safe_open.is_of_kernel(descriptor)
        finally:
            os.close(descriptor)


#: Its environment begins like a PDF, and is mounted where one could be.
MOUNTED = """
import os, subprocess, sys
from glovebox.errors import TransferError
from glovebox.server.viewer.pages import open_file
subprocess.run(["mount", "--bind", f"/proc/{os.getpid()}/environ", sys.argv[1]], check=True)
assert open(sys.argv[1]).read().startswith("%PDF-1.4")
try:
    open_file(sys.argv[1])
except TransferError as error:
    print(error)
"""


@as_root
def test_a_file_of_the_kernel_is_not_shown_where_only_its_file_system_tells(tmp_path: Path) -> None:
    path = tmp_path / "y.pdf"
    path.touch()
    done = subprocess.run(
        ["unshare", "--mount", sys.executable, "-c", MOUNTED, path],
        env={"%PDF-1.4": "x", "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == f"Files of the kernel are not shown: {path}\n", done.stderr
