"""Messages of the Jupyter protocol are signed, and only what the kernel signed is heard."""

from __future__ import annotations

import pytest
from jupyter_client.session import Session

from glovebox.box.notebook.wire import ConnectionInfo, new_session, read_message


def theirs(key: bytes = b"secret") -> Session:
    return Session(key=key)


def test_a_message_of_the_kernel_is_understood() -> None:
    kernel = theirs()
    request = kernel.msg("execute_request")
    frames = kernel.serialize(kernel.msg("stream", {"text": "é"}, parent=request), ident=b"stream.stdout")
    message = read_message(new_session("secret"), frames)
    assert message is not None
    assert (message.kind, message.parent, message.content) == (
        "stream",
        request["header"]["msg_id"],
        {"text": "é"},
    )


def test_a_message_with_another_key_is_not_heard() -> None:
    frames = theirs(b"other").serialize(theirs().msg("stream", {"text": "forged"}))
    assert read_message(new_session("secret"), frames) is None


@pytest.mark.parametrize("frames", [[], [b"x"], [b"<IDS|MSG>"], [b"<IDS|MSG>", b"s", b"{}", b"{}"]])
def test_what_is_no_message_is_not_heard(frames: list[bytes]) -> None:
    assert read_message(new_session("secret"), frames) is None


@pytest.mark.parametrize(
    ("content", "text"),
    [(b'{"text": "a\xffb"}', "a\ufffdb"), (b'{"text": "a", "n": NaN}', "a")],
)
def test_content_that_is_not_quite_json_is_read_as_far_as_possible(content: bytes, text: str) -> None:
    kernel = theirs()
    frames = kernel.serialize(kernel.msg("stream", {}))
    frames[-1] = content
    frames[1] = kernel.sign(frames[2:])
    message = read_message(new_session("secret"), frames)
    assert message is not None
    assert message.content["text"] == text


@pytest.mark.parametrize(
    ("transport", "ip", "url"),
    [("ipc", "/tmp/box/k", "ipc:///tmp/box/k-1"), ("tcp", "127.0.0.1", "tcp://127.0.0.1:1")],
)
def test_a_socket_is_a_file_or_a_port(transport: str, ip: str, url: str) -> None:
    connection = ConnectionInfo(
        transport="ipc" if transport == "ipc" else "tcp", ip=ip, shell_port=1, iopub_port=2, stdin_port=3,
        control_port=4, hb_port=5, key="k",
    )  # fmt: skip
    assert connection.url(connection.shell_port) == url
