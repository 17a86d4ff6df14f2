"""A real container engine for tests, private to this run, and what its boxes are made of.

This is a plugin of pytest: tests ask for `engine`. What takes long to make (an image, the runtime) is begun
as soon as it is known that a test needs it, and kept in `.venv/engine` for the next run.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.support.certificates import make_authority, make_certificate
from tests.support.running import wait_until
from tests.support.waiting import LIMIT

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".venv" / "engine"
BASE_TAR = CACHE / "base.tar"
#: The image of tests: Debian, and no Python in it.
BASE = "glovebox-test-base:latest"
#: What has to be installed for a private engine, by what it brings.
PACKAGES = {"dockerd": "docker.io", "debootstrap": "debootstrap", "ip": "iproute2", "openssl": "openssl"}
#: How gVisor runs in any machine, and keeps what is written to a container when that is stopped.
RUNSC_ARGUMENTS = ("--network=host", "--overlay2=none")
#: Has an engine take over a socket that listens already, as systemd would have it.
_WITH_SOCKET = 'export LISTEN_PID=$$ LISTEN_FDS=1; exec "$@" 3<&"$0"'
#: What lets Podman run without systemd and in a machine that allows no more than this.
PODMAN_SETTINGS = """
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
events_logger = "file"
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
"""
PODMAN_BRIDGE = Path("/sys/class/net/cni-podman0")
#: Seconds until an engine answers, and until an image and the runtime are made.
START_LIMIT = 30.0
PREPARE_LIMIT = 600.0


class RealEngine:
    """An engine that answers; its text is what DOCKER_HOST is set to."""

    def __init__(self, host: str) -> None:
        self.host = host
        if host.startswith("unix://"):
            transport = httpx.HTTPTransport(uds=host.removeprefix("unix://"))
            self._client = httpx.Client(transport=transport, base_url="http://engine", timeout=120)
        else:
            self._client = httpx.Client(
                base_url=host.replace("tcp://", "http://"), timeout=120, trust_env=False
            )

    def __str__(self) -> str:
        return self.host

    @property
    def environ(self) -> dict[str, str]:
        """What a client has to find in its environment to start boxes here."""
        return {"DOCKER_HOST": self.host, "GLOVEBOX_IMAGE": BASE, "GLOVEBOX_BUNDLE": str(prepared("bundle"))}

    def ask(self, method: str, path: str, *, body: Any = None, content: Any = None, **query: str) -> Any:
        """What the engine answers to something that it must not refuse."""
        answer = self._client.request(method, path, json=body, content=content, params=query)
        assert answer.status_code < 400, f"{method} {path}: {answer.text}"
        is_json = answer.headers.get("content-type") == "application/json"
        return (
            answer.json() if is_json and answer.content and "\n" not in answer.text.strip() else answer.text
        )

    def container(self, box: str) -> Any:
        """The container of a box, as the engine tells it."""
        return self.ask("GET", f"/containers/glovebox-{box}/json")

    def things(self) -> set[str]:
        """All containers, volumes and networks there are, but no runtime, which is there to stay."""
        volumes = self.ask("GET", "/volumes")["Volumes"] or []
        return {
            *(f"container {found['Names'][0]}" for found in self.ask("GET", "/containers/json", all="1")),
            *(f"volume {found['Name']}" for found in volumes if "glovebox-runtime-" not in found["Name"]),
            *(f"network {found['Name']}" for found in self.ask("GET", "/networks")),
        }

    def answers(self) -> bool:
        """Whether it is there."""
        try:
            return self._client.get("/_ping").status_code == 200
        except httpx.TransportError:
            return False

    def has_image(self, name: str) -> bool:
        """Whether an image is there."""
        return self._client.get(f"/images/{name}/json").status_code == 200

    def import_image(self, name: str, tar: Path | bytes, *changes: str) -> None:
        """An image from the tar of a file system."""
        repository, _, tag = name.partition(":")
        query = {"fromSrc": "-", "repo": repository, "tag": tag}
        changed = [("changes", change) for change in changes]
        with io.BytesIO(tar) if isinstance(tar, bytes) else tar.open("rb") as content:
            answer = self._client.post(
                "/images/create",
                params=[*query.items(), *changed],
                content=iter(lambda: content.read(1 << 20), b""),
            )
        assert self.has_image(name), answer.text

    def remove_image(self, name: str) -> None:
        """Remove an image, if it is there."""
        self._client.delete(f"/images/{name}", params={"force": "1"})

    def close(self) -> None:
        """Let go of it."""
        self._client.close()


class PrivateEngine(RealEngine):
    """A Docker Engine with sockets, data and a bridge of its own; with gVisor, if that is installed.

    It can also be reached by TCP, with one of the certificates that `authority` signs.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__(f"unix://{directory}/docker.sock")
        self.directory = directory
        self._bridge = f"gbx{os.getpid() % 100_000}-{directory.name[-4:]}"[:15]
        self._drivers: tuple[str, ...] = ("overlay2", "vfs")
        self._process: subprocess.Popen[bytes] | None = None
        self._port = socket.create_server(("127.0.0.1", 0))
        self.authority = make_authority(directory / "authority")
        self._certificates = make_certificate(directory / "engine", self.authority)

    @property
    def tcp_host(self) -> str:
        """Where it speaks TLS."""
        return f"tcp://127.0.0.1:{self._port.getsockname()[1]}"

    @property
    def pid(self) -> int:
        """The process of the engine."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, also after it was killed."""
        if not Path(f"/sys/class/net/{self._bridge}").exists():
            subnet = next(_free_subnets())
            _run("ip", "link", "add", self._bridge, "type", "bridge")
            _run("ip", "addr", "add", f"{subnet}.1/24", "dev", self._bridge)
            _run("ip", "link", "set", self._bridge, "up")
        for driver in self._drivers:
            # Of one that was killed; what the files name may be there still, as a zombie.
            for left in ("docker.pid", "exec/containerd/containerd.pid"):
                (self.directory / left).unlink(missing_ok=True)
            self._process = self._popen(driver)
            wait_until(
                lambda: self.answers() or self._has_ended(), START_LIMIT, f"dockerd; see {self.directory}/log"
            )
            if not self._has_ended():
                self._drivers = (driver,)
                return
        raise RuntimeError(f"dockerd does not start:\n{(self.directory / 'log').read_text()[-2000:]}")

    def _has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def _popen(self, driver: str) -> subprocess.Popen[bytes]:
        flags = {
            "host": self.host,
            "data-root": self.directory / "data",
            "exec-root": self.directory / "exec",
            "pidfile": self.directory / "docker.pid",
            "bridge": self._bridge,
            "storage-driver": driver,
            # Published ports need none, and those of another engine are not ours to change.
            "iptables": "false",
            "log-level": "warn",
            "config-file": self._settings_file(),
            "tlsverify": "true",
            "tlscacert": self._certificates / "ca.pem",
            "tlscert": self._certificates / "cert.pem",
            "tlskey": self._certificates / "key.pem",
        }
        given = [f"--{name}={value}" for name, value in flags.items()]
        port = self._port.fileno()
        command = ["bash", "-c", _WITH_SOCKET, str(port), "dockerd", "--host=fd://3", *given]
        with (self.directory / "log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, pass_fds=(port,))

    def _settings_file(self) -> Path:
        """What cannot be said with flags."""
        runsc = shutil.which("runsc")
        runtimes = {"runsc": {"path": runsc, "runtimeArgs": RUNSC_ARGUMENTS}} if runsc else {}
        file = self.directory / "daemon.json"
        file.write_text(json.dumps({"runtimes": runtimes}))
        return file

    def kill(self) -> None:
        """End it without a chance to tidy up."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End it and all that it has started, and remove what it kept."""
        if self.answers():  # it would wait for each to end by itself
            for found in self.ask("GET", "/containers/json", all="1"):
                self.ask("DELETE", f"/containers/{found['Id']}", force="1")
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(LIMIT)
        self.close()
        self._port.close()
        _remove(self.directory)
        subprocess.run(["ip", "link", "del", self._bridge], check=False, capture_output=True)


class PrivatePodman(RealEngine):
    """Podman's service, with data of its own."""

    def __init__(self, directory: Path) -> None:
        super().__init__(f"unix://{directory}/podman.sock")
        self.directory = directory
        self._had_bridge = PODMAN_BRIDGE.exists()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it."""
        (self.directory / "containers.conf").write_text(PODMAN_SETTINGS)
        places = {"root": "root", "runroot": "run", "tmpdir": "tmp"}
        flags = [f"--{flag}={self.directory / place}" for flag, place in places.items()]
        command = ["podman", *flags, "--storage-driver=overlay", "system", "service", "--time=0", self.host]
        environ = {**os.environ, "CONTAINERS_CONF": str(self.directory / "containers.conf")}
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environ)
        wait_until(self.answers, START_LIMIT, f"podman; see {self.directory}/log")

    def stop(self) -> None:
        """End it and all that it has started, and remove what it kept."""
        for found in self.ask("GET", "/containers/json", all="1"):
            self.ask("DELETE", f"/containers/{found['Id']}", force="1")
        self.close()
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
        _remove(self.directory)
        if not self._had_bridge:
            subprocess.run(["ip", "link", "del", PODMAN_BRIDGE.name], check=False, capture_output=True)


def _remove(directory: Path) -> None:
    """Remove a directory in which things may be mounted, and end processes that have to do with it."""
    running = psutil.process_iter(["cmdline"])
    own = [process for process in running if str(directory) in " ".join(process.info["cmdline"] or ())]
    for process in own:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(own, timeout=10)
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for mount in sorted((path for path in mounts if path.startswith(str(directory))), reverse=True):
        subprocess.run(["umount", "-l", mount], check=False, capture_output=True)
    shutil.rmtree(directory, ignore_errors=True)


def _free_subnets() -> Iterator[str]:
    """Networks of 254 addresses that this machine does not know."""
    known = subprocess.run(["ip", "-4", "addr"], check=True, capture_output=True, text=True).stdout
    for number in range(200, 255):
        if f"inet 10.213.{number}." not in known:
            yield f"10.213.{number}"


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


@contextlib.contextmanager
def private_engine() -> Iterator[PrivateEngine]:
    """Another engine, for tests that kill it. It has no image yet."""
    _skip_where_impossible()
    # A socket's path must be short, so this is not below the tests' own directory.
    engine = PrivateEngine(Path(tempfile.mkdtemp(prefix="glovebox-engine-", dir="/tmp")))
    try:
        engine.start()
        yield engine
    finally:
        engine.stop()


@pytest.fixture(scope="session")
def engine() -> Iterator[RealEngine]:
    """A Docker Engine with the image `BASE`: the one of GLOVEBOX_TEST_ENGINE, or a private one."""
    with contextlib.ExitStack() as stack:
        chosen = os.environ.get("GLOVEBOX_TEST_ENGINE", "")
        if chosen:
            found = stack.enter_context(contextlib.closing(RealEngine(chosen)))
            if not found.answers():
                pytest.fail(f"GLOVEBOX_TEST_ENGINE is {chosen}, where nothing answers")
        else:
            found = stack.enter_context(private_engine())
        if not found.has_image(BASE):
            found.import_image(BASE, prepared("base"))
        yield found


@pytest.fixture(scope="session")
def podman() -> Iterator[RealEngine]:
    """Podman, behind the same interface, with the image `BASE`."""
    _skip_where_impossible()
    if shutil.which("podman") is None or shutil.which("runc") is None:
        pytest.skip("there is no Podman to test with: install podman and runc")
    found = PrivatePodman(Path(tempfile.mkdtemp(prefix="glovebox-podman-", dir="/tmp")))
    found.start()
    try:
        found.import_image(BASE, prepared("base"))
        yield found
    finally:
        found.stop()


def _skip_where_impossible() -> None:
    if os.geteuid() != 0:
        pytest.skip(
            "a container engine of the tests' own needs root; set GLOVEBOX_TEST_ENGINE to a DOCKER_HOST"
        )
    missing = [package for program, package in PACKAGES.items() if shutil.which(program) is None]
    if missing:
        pytest.skip(f"there is no container engine to test with: install {' '.join(missing)}")


# What takes long to make is made by processes of their own, begun early and waited for late.

_making: dict[str, subprocess.Popen[bytes]] = {}


def pytest_collection_finish(session: pytest.Session) -> None:
    """Begin with what the tests that were found will need."""
    wanted = any(
        "engine" in getattr(item, "fixturenames", ()) or "docker" in item.name for item in session.items
    )
    if wanted and os.geteuid() == 0 and not session.config.option.collectonly:
        for what in ("base", "bundle"):
            begin(what)


def pytest_unconfigure() -> None:
    """End what nobody has waited for."""
    for process in _making.values():
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def begin(what: str) -> None:
    """Begin to make the image's tar (`base`) or the runtime (`bundle`)."""
    if what not in _making and not (what == "bundle" and os.environ.get("GLOVEBOX_BUNDLE")):
        CACHE.mkdir(parents=True, exist_ok=True)
        with _log(what).open("wb") as log:
            command = [sys.executable, "-m", "tests.support.engine", what]
            _making[what] = subprocess.Popen(
                command, cwd=ROOT, stdout=log, stderr=log, start_new_session=True
            )


def _log(what: str) -> Path:
    """What making it prints. Each process that shares the tests has its own: another would empty it."""
    return CACHE / f"{what}-{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}.log"


def prepared(what: str) -> Path:
    """What `begin` has begun, when it is there; a runtime that somebody has made is taken as it is."""
    if what == "bundle" and (given := os.environ.get("GLOVEBOX_BUNDLE")):
        return Path(given)
    begin(what)
    try:
        status = _making[what].wait(PREPARE_LIMIT)
    except subprocess.TimeoutExpired:
        status = -1
    log = _log(what).read_text(errors="replace")
    if status:
        pytest.fail(f"{what} could not be made:\n{log[-2000:]}")
    return Path(log.strip().splitlines()[-1])


def _make_base() -> Path:
    """The tar of a Debian that has only what it cannot do without."""
    if not BASE_TAR.exists():
        about = Path("/etc/os-release").read_text().splitlines()
        release = dict(line.split("=", 1) for line in about if "=" in line)["VERSION_CODENAME"]
        making = CACHE / "making"
        shutil.rmtree(making, ignore_errors=True)  # of one that was ended
        making.mkdir()
        subprocess.run(["debootstrap", "--variant=minbase", release, making / "tree"], check=True)
        leave = ("var/cache/apt/archives/*.deb", "var/lib/apt/lists/*", "usr/share/doc/*", "proc/*", "sys/*")
        excluded = [f"--exclude=./{path}" for path in leave]
        tar = ["tar", "--numeric-owner", f"-C{making}/tree", *excluded, "-cf", f"{making}/base.tar", "."]
        subprocess.run(tar, check=True)
        os.rename(making / "base.tar", BASE_TAR)
        shutil.rmtree(making)
    return BASE_TAR


def _make_bundle() -> Path:
    import asyncio

    from glovebox.bundle import ensure
    from glovebox.client.backend import Silent
    from glovebox.settings import host

    settings = host.load({**os.environ, "XDG_CACHE_HOME": str(CACHE), "GLOVEBOX_BUNDLE": ""})
    for left in settings.cache.glob(".bundle-*"):  # of one that was ended
        shutil.rmtree(left)
    return asyncio.run(ensure(settings, Silent()))


def main(what: str) -> None:
    """Make one of the two, or find it made, and say where it is."""
    with (CACHE / f"{what}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        print(_make_base() if what == "base" else _make_bundle())


if __name__ == "__main__":
    main(sys.argv[1])
