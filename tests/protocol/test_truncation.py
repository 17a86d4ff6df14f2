from __future__ import annotations

from glovebox.protocol.observations import NOTICE, truncate


def test_a_content_of_the_limit_is_left_alone() -> None:
    assert truncate("a" * 30_000) == "a" * 30_000


def test_a_longer_content_keeps_its_first_and_last_half() -> None:
    content = "a" * 15_000 + "b" + "c" * 15_000
    assert truncate(content) == "a" * 15_000 + NOTICE + "c" * 15_000
    assert len(truncate(content)) == 30_047
