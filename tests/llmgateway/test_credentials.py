"""Keys come from the environment, a private file, the keyring, in that order; and get nowhere else."""

from __future__ import annotations

import json
import os
import sys
import types
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from sidecar.llmgateway import credentials
from sidecar.llmgateway.contract import GatewayError
from sidecar.llmgateway.credentials import Credentials, Key, how_to_set, system_keyring
from sidecar.llmgateway.names import PROVIDERS_BY_NAME, Provider

OPENAI = PROVIDERS_BY_NAME["openai"]


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("OPENAI_API_KEY", "GROQ_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    yield
    credentials.load_keyring.cache_clear()


def write(home: Path, keys: object, mode: int = 0o600) -> Path:
    path = home / "auth.json"
    path.write_text(json.dumps(keys))
    path.chmod(mode)
    return path


def found(where: Credentials, provider: Provider = OPENAI) -> tuple[str, str] | None:
    key = where.find(provider)
    return (key.value, key.source) if key is not None else None


def test_the_environment_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"openai": "of-file"})
    where = Credentials(tmp_path, lambda name: "of-keyring")
    monkeypatch.setenv("OPENAI_API_KEY", " of-env ")
    assert found(where) == ("of-env", "OPENAI_API_KEY")
    monkeypatch.setenv("OPENAI_API_KEY", " ")
    assert found(where) == ("of-file", "auth.json")
    (tmp_path / "auth.json").unlink()
    assert found(where) == ("of-keyring", "keyring")
    assert found(Credentials(tmp_path)) is None


def test_of_two_variables_the_first_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "second")
    assert found(Credentials(), PROVIDERS_BY_NAME["google"]) == ("second", "GEMINI_API_KEY")
    monkeypatch.setenv("GOOGLE_API_KEY", "first")
    assert found(Credentials(), PROVIDERS_BY_NAME["google"]) == ("first", "GOOGLE_API_KEY")


def test_the_formats_of_one_provider_share_its_key(tmp_path: Path) -> None:
    write(tmp_path, {"openai": "k", "groq": "g"})
    where = Credentials(tmp_path)
    assert found(where, PROVIDERS_BY_NAME["openai-chat"]) == ("k", "auth.json")
    assert found(where, PROVIDERS_BY_NAME["groq"]) == ("g", "auth.json")
    assert found(where, PROVIDERS_BY_NAME["deepseek"]) is None
    assert found(where, Provider("mine", "openai-chat")) is None


@pytest.mark.skipif(os.name != "posix", reason="modes are of posix")
def test_a_file_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    write(tmp_path, {"openai": "k"}, 0o644)
    with pytest.raises(GatewayError, match="mode 0644") as caught:
        Credentials(tmp_path).find(OPENAI)
    assert caught.value.kind == "auth"
    assert "chmod 600" in caught.value.message


@pytest.mark.parametrize("text", ["{", "[]", '{"openai": 7}', '{"openai": ""}', "\xff"])
def test_a_wrong_file_of_keys_is_an_error(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, {})
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(GatewayError, match=r"auth\.json") as caught:
        Credentials(tmp_path).find(OPENAI)
    assert caught.value.kind == "auth"


def test_a_key_shows_in_no_repr(tmp_path: Path) -> None:
    write(tmp_path, {"openai": "sk-secret"})
    assert "sk-secret" not in repr(Credentials(tmp_path).find(OPENAI))


def fake_keyring(
    monkeypatch: pytest.MonkeyPatch, get_password: object, packages: Sequence[str] = ("keyring",)
) -> list[str]:
    """Install a keyring with *packages*, and return the list of the back ends that are loaded."""
    loaded: list[str] = []
    backend = types.SimpleNamespace(get_password=get_password)

    def load(name: str) -> types.SimpleNamespace:
        loaded.append(name)
        return backend

    core = types.SimpleNamespace(
        load_env=lambda: None, load_config=lambda: None, load_keyring=load, get_keyring=lambda: load("all")
    )
    module = types.ModuleType("keyring")
    module.core = core  # type: ignore[attr-defined]  # all that we use of it
    monkeypatch.setitem(sys.modules, "keyring", module)
    monkeypatch.setattr(credentials, "find_spec", lambda name: object() if name in packages else None)
    monkeypatch.setattr(credentials, "_has_keyring_service", lambda: True)
    credentials.load_keyring.cache_clear()
    return loaded


def test_the_systems_keyring_is_searched_under_our_name(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = fake_keyring(monkeypatch, lambda service, name: f"{service}/{name}")
    keyring = system_keyring()
    assert keyring is not None
    assert keyring("openai") == keyring("openai") == "sidecar/openai"
    assert len(loaded) == 1
    assert loaded != ["all"]


@pytest.mark.parametrize("package", ["keyrings", "dbus", "gi"])
def test_every_back_end_is_tried_where_there_may_be_another(
    monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    loaded = fake_keyring(monkeypatch, lambda service, name: "key", ("keyring", package))
    assert credentials.search_keyring("openai") == "key"
    assert loaded == ["all"]


def test_a_keyring_that_fails_or_waits_for_ever_holds_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(service: str, name: str) -> str:
        raise RuntimeError("locked")

    fake_keyring(monkeypatch, fails)
    keyring = system_keyring()
    assert keyring is not None
    assert keyring("openai") is None

    import threading

    monkeypatch.setattr(credentials, "_KEYRING_DEADLINE_S", 0.01)
    opened = threading.Event()
    fake_keyring(monkeypatch, lambda service, name: opened.wait() and "late")
    assert keyring("openai") is None
    opened.set()


def test_without_the_package_there_is_no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "find_spec", lambda name: None)
    assert system_keyring() is None


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems have a keyring of their own")
def test_without_a_bus_and_a_setting_no_keyring_is_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(credentials, "find_spec", lambda name: object() if name == "keyring" else None)
    for name in credentials._KEYRING_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert system_keyring() is None
    (tmp_path / "bus").touch()
    assert system_keyring() is not None
    (tmp_path / "bus").unlink()
    (tmp_path / "config" / "python_keyring").mkdir(parents=True)
    assert system_keyring() is not None


def test_the_next_step_for_a_missing_key() -> None:
    assert how_to_set(OPENAI) == "set OPENAI_API_KEY, or run: sidecar login openai"
    assert how_to_set(Provider("x", "openai-chat")) == "run: sidecar login x"


def keep(value: str, source: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> Credentials:
    """Return credentials with *value* as the key, kept in *source*."""
    if source == "OPENAI_API_KEY":
        monkeypatch.setenv(source, value)
    elif source == "auth.json":
        write(home, {"openai": value})
    return Credentials(home, lambda name: value)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ("sk-1234\n5678", "a line break"),
        ("sk-1234 5678", "a blank"),
        ('"sk-12345678', "a quote"),
        ("sk-1234'5678", "a quote"),
        ("sk-\u0430\u0431", "a character that no key has"),
    ],
)
@pytest.mark.parametrize("source", ["OPENAI_API_KEY", "auth.json", "keyring"])
def test_a_key_that_no_header_takes_is_refused_where_it_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, value: str, named: str
) -> None:
    where = keep(value, source, tmp_path, monkeypatch)
    with pytest.raises(GatewayError) as raised:
        where.find(OPENAI)
    error = raised.value
    assert error.message == f"the key for openai in {source} has {named} in it; copy it again"
    assert (error.kind, error.retryable) == ("auth", False)


@pytest.mark.parametrize("value", ['"sk-1"', "'sk-1'", ' "sk-1"\n', '" sk-1 "'])
@pytest.mark.parametrize("source", ["OPENAI_API_KEY", "auth.json", "keyring"])
def test_quotes_around_a_key_are_no_part_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, value: str
) -> None:
    assert keep(value, source, tmp_path, monkeypatch).find(OPENAI) == Key("sk-1", source)


def test_a_variable_of_two_quotes_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", '""')
    assert Credentials(tmp_path).find(OPENAI) is None
