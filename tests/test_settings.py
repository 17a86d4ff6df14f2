from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from glovebox import settings
from glovebox.errors import SettingsError
from glovebox.settings import hub
from glovebox.settings.declaration import parse_size


def parsed(*argv: str) -> dict[str, object]:
    parser = argparse.ArgumentParser()
    settings.add_arguments(parser)
    return vars(parser.parse_args(argv))


def test_nothing_given_is_a_box_on_loopback_for_this_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    loaded = settings.load({}, {})
    assert (loaded.host, loaded.port, loaded.is_loopback) == ("127.0.0.1", 8000, True)
    assert loaded.working_dir == str(tmp_path)
    assert loaded.no_change_timeout_seconds == 10


def test_the_flags_of_the_reference_are_understood() -> None:
    flags = parsed(
        "3000", "--working-dir", "/w", "--plugins", "agent_skills", "jupyter", "--username", "root",
        "--user-id", "0", "--no-enable-browser",
    )  # fmt: skip
    loaded = settings.load(flags, {})
    assert (loaded.port, loaded.working_dir, loaded.plugins) == (3000, "/w", ("agent_skills", "jupyter"))
    assert (loaded.username, loaded.user_id, loaded.enable_browser) == ("root", 0, False)


def test_a_flag_wins_over_a_variable_and_a_variable_over_the_default() -> None:
    environ = {"GLOVEBOX_PORT": "9000", "NO_CHANGE_TIMEOUT_SECONDS": "3", "SU_TO_USER": "no"}
    assert settings.load({}, environ).port == 9000
    loaded = settings.load(parsed("9001"), environ)
    assert (loaded.port, loaded.no_change_timeout_seconds, loaded.su_to_user) == (9001, 3, False)


def test_every_setting_can_be_given_by_its_variable_and_by_its_flag(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("secret\n")
    needed = {"GLOVEBOX_INSECURE": "1", "GLOVEBOX_STATE_DIR": str(tmp_path), "GLOVEBOX_USERNAME": "me"}
    samples = {int: "7", bool: "true", str: "DEBUG", tuple: "a"}
    for option in settings.options():
        text = "tmux" if option.name == "terminal" else samples[type(option.default)]
        from_variable = getattr(settings.load({}, needed | {option.variable: text}), option.name)
        argument = str(key) if option.secret else text
        words = [argument] if not option.flag.startswith("--") else [option.flag, argument]
        if isinstance(option.default, bool):
            words = [option.flag]
        from_flag = getattr(settings.load(parsed(*words), needed), option.name)
        assert from_flag == ("secret" if option.secret else from_variable), option.name


def test_the_key_does_not_reach_commands_but_the_rest_does() -> None:
    loaded = settings.load({}, {"SESSION_API_KEY": "k", "LANG": "C.UTF-8"})
    assert loaded.session_api_key == "k"
    assert loaded.command_environment == {"LANG": "C.UTF-8"}
    assert "session_api_key" not in repr(loaded)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "box.example.org", "::"])
def test_an_address_others_can_reach_needs_a_key(host: str) -> None:
    with pytest.raises(SettingsError, match="SESSION_API_KEY"):
        settings.load({"host": host}, {})
    assert settings.load({"host": host}, {"SESSION_API_KEY": "0123456789abcdef"}).host == host
    assert settings.load({"host": host, "insecure": True}, {}).host == host


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "box.example.org", "::"])
def test_a_key_that_could_be_found_by_trying_is_refused_where_others_can_try(host: str) -> None:
    for key in ("k", "0123456789abcde"):
        with pytest.raises(SettingsError, match="fewer than 16 characters"):
            settings.load({"host": host}, {"SESSION_API_KEY": key})
        with pytest.raises(SettingsError, match="fewer than 16 characters"):
            hub.load({"host": host}, {"GLOVEBOX_HUB_KEY": key})
        assert (
            settings.load({"host": host, "insecure": True}, {"SESSION_API_KEY": key}).session_api_key == key
        )
        assert settings.load({}, {"SESSION_API_KEY": key}).session_api_key == key
        assert hub.load({}, {"GLOVEBOX_HUB_KEY": key}).key == key


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.1.2.3"])
def test_loopback_needs_no_key(host: str) -> None:
    assert settings.load({"host": host}, {}).is_loopback


@pytest.mark.parametrize(
    ("environ", "text"),
    [
        ({"GLOVEBOX_PORT": "x"}, "GLOVEBOX_PORT"),
        ({"GLOVEBOX_PORT": "70000"}, "65535"),
        ({"NO_CHANGE_TIMEOUT_SECONDS": "0"}, "positive"),
        ({"SU_TO_USER": "perhaps"}, "true or false"),
        ({"GLOVEBOX_MAX_UPLOAD_SIZE": "lots"}, "500M"),
        ({"GLOVEBOX_USER_ID": "me"}, "GLOVEBOX_USER_ID"),
        ({"LOG_LEVEL": "loud"}, "DEBUG"),
        ({"GLOVEBOX_ENABLE_BROWSER": "no", "GLOVEBOX_BROWSERGYM_EVAL_ENV": "t"}, "browsergym_eval_env"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(environ: dict[str, str], text: str) -> None:
    with pytest.raises(SettingsError, match=text):
        settings.load({}, environ)


def test_a_key_file_that_is_missing_or_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text(" \n")
    for name in ("none", "empty"):
        with pytest.raises(SettingsError, match="session-api-key-file"):
            settings.load(parsed("--session-api-key-file", str(tmp_path / name)), {})


@pytest.mark.parametrize(
    ("text", "size"), [("10", 10), ("1K", 1024), ("500M", 500 << 20), ("2GiB", 2 << 30), ("1tb", 1 << 40)]
)
def test_sizes_may_have_units(text: str, size: int) -> None:
    assert parse_size(text) == size
