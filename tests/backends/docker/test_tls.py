"""An engine that is reached by TCP, where both sides show certificates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from glovebox.backends.docker.backend import DockerBackend
from glovebox.client.spec import BoxSpec
from glovebox.errors import EngineUnavailable
from tests.backends.conftest import run
from tests.backends.docker.conftest import MakeBackend, started
from tests.support.certificates import make_authority, make_certificate
from tests.support.engine import PrivateEngine, RealEngine

#: A client of the engine that looks for its certificates in a directory.
Client = Callable[[Path], DockerBackend]


@pytest.fixture
def private(engine: RealEngine) -> PrivateEngine:
    if not isinstance(engine, PrivateEngine):
        pytest.skip("the engine of GLOVEBOX_TEST_ENGINE has not the certificates of these tests: unset it")
    return engine


@pytest.fixture
def client(private: PrivateEngine, make_docker: MakeBackend) -> Client:
    def make(certificates: Path) -> DockerBackend:
        return make_docker(
            DOCKER_HOST=private.tcp_host, DOCKER_TLS_VERIFY="1", DOCKER_CERT_PATH=str(certificates)
        )

    return make


@pytest.fixture
def mine(private: PrivateEngine, tmp_path: Path) -> Path:
    """Certificates that the engine trusts."""
    return make_certificate(tmp_path / "mine", private.authority)


async def test_a_box_lives_with_an_engine_that_wants_certificates(client: Client, mine: Path) -> None:
    backend = client(mine)
    async with started(backend, BoxSpec(name="secured")) as box:
        assert await run(box, "echo here") == "here"
        assert [info.name for info in await backend.boxes()] == ["secured"]


async def test_certificates_are_looked_for_where_dockers_client_has_them(
    private: PrivateEngine, make_docker: MakeBackend, environ: dict[str, str], mine: Path
) -> None:
    (Path(environ["HOME"]) / ".docker").symlink_to(mine)
    backend = make_docker(DOCKER_HOST=private.tcp_host.replace("tcp:", "https:"))
    assert await backend.boxes() == []


async def test_an_engine_of_another_authority_is_not_trusted(
    client: Client, mine: Path, tmp_path: Path
) -> None:
    other = make_authority(tmp_path / "other")
    (mine / "ca.pem").write_bytes((other / "cert.pem").read_bytes())
    with pytest.raises(EngineUnavailable, match=rf"(?s)VERIFY_FAILED.*{mine}/ca.pem has to be that of"):
        await client(mine).boxes()


async def test_an_engine_that_does_not_know_the_client_says_no(
    client: Client, private: PrivateEngine, tmp_path: Path
) -> None:
    stranger = make_certificate(tmp_path / "stranger", make_authority(tmp_path / "other"))
    (stranger / "ca.pem").write_bytes((private.authority / "cert.pem").read_bytes())
    with pytest.raises(EngineUnavailable, match=f"{stranger}/cert.pem has to be signed by an authority that"):
        await client(stranger).boxes()


async def test_what_is_missing_is_named(client: Client, mine: Path, tmp_path: Path) -> None:
    (mine / "cert.pem").unlink()
    with pytest.raises(EngineUnavailable, match=f"cannot be read in {mine}: cert.pem not found"):
        await client(mine).boxes()
    with pytest.raises(
        EngineUnavailable, match=r"ca.pem, cert.pem, key.pem not found. DOCKER_CERT_PATH names"
    ):
        await client(tmp_path / "nowhere").boxes()


async def test_a_key_that_does_not_fit_is_refused(client: Client, mine: Path, private: PrivateEngine) -> None:
    (mine / "key.pem").write_bytes((private.authority / "key.pem").read_bytes())
    with pytest.raises(EngineUnavailable, match=f"cannot be read in {mine}: .*mismatch"):
        await client(mine).boxes()


async def test_a_client_that_does_not_speak_tls_is_told_to(
    private: PrivateEngine, make_docker: MakeBackend
) -> None:
    with pytest.raises(EngineUnavailable, match="It wants TLS: set DOCKER_TLS_VERIFY=1"):
        await make_docker(DOCKER_HOST=private.tcp_host, DOCKER_TLS_VERIFY="").boxes()
