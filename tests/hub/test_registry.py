"""Windows come and go as the clock says."""

from __future__ import annotations

import msgspec
import pytest

from glovebox.errors import NoSuchWindow, WindowError
from glovebox.hub.registry import MOST_GONE, RegistrationRefused, Registry, WindowEntry
from glovebox.protocol.window import Folder, Registration


class Time:
    """A clock that goes when it is told to."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def registry(time: Time) -> Registry:
    return new_registry(time)


def new_registry(time: Time, key: str = "key", most: int = 1000) -> Registry:
    return Registry(key=key, heartbeat=10, grace=30, reload=120, clock=time, wall=lambda: 5.0, most=most)


def said(instance: str = "one", name: str = "project") -> Registration:
    return Registration(
        instance=instance, name=name, folders=[Folder(name=name, path=f"/home/{name}")],
        vscode_version="1.100", extension_version="0.1", capabilities=["run"],
    )  # fmt: skip


def connected(registry: Registry) -> WindowEntry:
    entry, secret = registry.register(said())
    return registry.connect(entry.id, secret)


def test_a_window_that_does_not_connect_is_overdue_after_the_grace_time(
    registry: Registry, time: Time
) -> None:
    entry, _ = registry.register(said())
    assert registry.status(entry) == "waiting"
    time.now += 30
    assert registry.look() == []
    time.now += 1
    assert registry.look() == [(entry, "It did not connect within 30 s.")]


def test_a_window_without_heartbeats_is_unresponsive_until_the_next_one(
    registry: Registry, time: Time
) -> None:
    entry = connected(registry)
    time.now += 25
    registry.look()
    assert registry.status(entry) == "connected"
    time.now += 1
    registry.look()
    assert registry.status(entry) == "unresponsive"
    registry.heartbeat(entry)
    assert registry.status(entry) == "connected"


def test_a_window_that_reloads_is_waited_for_longer_than_one_that_broke_off(
    registry: Registry, time: Time
) -> None:
    entry, secret = registry.register(said())
    registry.connect(entry.id, secret)
    registry.disconnected(entry, reloading=True)
    time.now += 119
    assert registry.look() == []
    assert registry.status(entry) == "reloading"
    again, secret = registry.register(said("two"), entry.id, secret)
    assert (again, registry.status(again)) == (entry, "reloading")
    time.now += 119
    assert registry.look() == []
    registry.connect(entry.id, secret)
    assert registry.status(entry) == "connected"
    registry.disconnected(entry, reloading=True)
    time.now += 121
    assert registry.look() == [(entry, "It went away and did not come back within 120 s.")]


def test_a_window_that_is_gone_gets_its_id_back_for_a_while(registry: Registry, time: Time) -> None:
    entry, secret = registry.register(said())
    for seconds, same in ((119, True), (121, False)):
        registry.remove(entry, "It went away.", may_return=True)
        time.now += seconds
        again, secret = registry.register(said("two"), entry.id, secret)
        assert (again.id == entry.id) is same
        entry = again
    registry.find(entry.id)


def test_a_window_that_stays_unresponsive_is_overdue(registry: Registry, time: Time) -> None:
    entry = connected(registry)
    time.now += 25 + 60
    assert registry.look() == []
    time.now += 1
    assert [one for one, _ in registry.look()] == [entry]


def test_a_window_that_went_away_may_come_back_within_the_grace_time(registry: Registry, time: Time) -> None:
    entry, secret = registry.register(said())
    registry.connect(entry.id, secret)
    registry.disconnected(entry)
    assert registry.status(entry) == "away"
    time.now += 29
    registry.connect(entry.id, secret)
    time.now += 20
    assert registry.look() == []
    assert registry.status(entry) == "connected"
    registry.disconnected(entry)
    time.now += 31
    assert registry.look() == [(entry, "It went away and did not come back within 30 s.")]


def test_a_paused_window_says_so_unless_it_does_not_answer(registry: Registry, time: Time) -> None:
    entry = connected(registry)
    registry.changed(entry, paused=True, trusted=False, folders=[])
    assert registry.status(entry) == "paused"
    assert registry.window(entry).folders == []
    assert not registry.window(entry).trusted
    time.now += 26
    registry.look()
    assert registry.status(entry) == "unresponsive"


def test_only_the_right_secret_opens_a_connection(registry: Registry) -> None:
    entry, secret = registry.register(said())
    with pytest.raises(RegistrationRefused, match="wrong_secret"):
        registry.connect(entry.id, secret[:-1])
    with pytest.raises(RegistrationRefused, match="unknown_window"):
        registry.connect("nobody", secret)
    assert registry.status(entry) == "waiting"


def test_a_window_that_proves_who_it_was_keeps_its_id_and_gets_a_new_secret(registry: Registry) -> None:
    entry, secret = registry.register(said())
    again, fresh = registry.register(said("reloaded"), entry.id, secret)
    assert again.id == entry.id
    with pytest.raises(RegistrationRefused, match="wrong_secret"):
        registry.connect(entry.id, secret)
    registry.connect(entry.id, fresh)


def test_a_window_that_cannot_prove_who_it_was_is_a_new_one(registry: Registry) -> None:
    entry, secret = registry.register(said())
    other, _ = registry.register(said(), entry.id, secret + "x")
    assert other.id != entry.id
    assert registry.unanswered(other) == [entry]
    assert registry.find(entry.id) is entry


def test_a_window_that_was_ever_connected_is_not_replaced_without_its_secret(registry: Registry) -> None:
    entry, secret = registry.register(said())
    registry.connect(entry.id, secret)
    other, _ = registry.register(said())
    assert registry.unanswered(other) == []
    registry.disconnected(entry)
    assert registry.unanswered(other) == []


def test_what_is_kept_opens_connections_of_the_next_hub_and_holds_no_secret(time: Time) -> None:
    first = new_registry(time)
    entry, secret = first.register(said())
    kept = msgspec.json.encode(first.remembered())
    assert secret.encode() not in kept
    second = new_registry(time)
    second.recall(msgspec.json.decode(kept, type=list[type(first.remembered()[0])]))  # type: ignore[misc]
    again = second.find(entry.id)
    assert second.status(again) == "away"
    assert second.window(again).name == "project"
    second.connect(entry.id, secret)
    assert second.status(again) == "connected"


def test_another_key_of_the_hub_makes_all_secrets_worthless(time: Time) -> None:
    first, second = new_registry(time), new_registry(time, key="another")
    entry, secret = first.register(said())
    second.recall(first.remembered())
    with pytest.raises(RegistrationRefused, match="wrong_secret"):
        second.connect(entry.id, secret)


def test_there_is_a_bound_for_windows_which_a_reload_does_not_meet(time: Time) -> None:
    registry = new_registry(time, most=2)
    entry, secret = registry.register(said("a"))
    registry.register(said("b"))
    with pytest.raises(WindowError, match="2 windows already"):
        registry.register(said("c"))
    assert registry.register(said("d"), entry.id, secret)[0] is entry


def test_what_became_of_a_window_is_told_for_a_while(registry: Registry) -> None:
    first, _ = registry.register(said())
    registry.remove(first, "Its user has disconnected it.")
    with pytest.raises(NoSuchWindow, match=r"is gone\. Its user has disconnected it\."):
        registry.find(first.id)
    for number in range(MOST_GONE):
        registry.remove(registry.register(said(str(number)))[0], "Gone.")
    with pytest.raises(NoSuchWindow, match="Glovebox: Connect"):
        registry.find(first.id)


def test_time_in_which_the_hub_stood_still_does_not_count(registry: Registry, time: Time) -> None:
    answering, absent = connected(registry), registry.register(said("another"))[0]
    time.now += 500
    assert registry.look(late=500) == []
    assert registry.status(answering) == "connected"
    time.now += 31
    assert [one for one, _ in registry.look()] == [absent]
    assert registry.status(answering) == "unresponsive"
