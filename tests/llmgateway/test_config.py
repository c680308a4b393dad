"""Settings: what they may say, whose word counts, and that a mistake is told and costs nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from settings_page import PAGE, settings_page
from sidecar.llmgateway.config import (
    CostEntry,
    ModelEntry,
    ModelSettings,
    UserSettings,
    from_environment,
    is_nested_too_deep,
    read_folder_settings,
    read_settings,
)
from sidecar.llmgateway.names import Provider
from sidecar.permissions.rules import Rules, parse_rules

FULL = """
model = "openai:gpt-5"
summarizer = "anthropic:claude-haiku-4-5"
thinking = "medium"
max_output_tokens = 9000
trusted = ["/project/mine"]

[models."openai:gpt-5"]
context_window = 272000

[models.fast]
provider = "mine"
name = "qwen3:8b"
context_window = 40960
max_output_tokens = 4096
reasoning = true
images = false
cost = { input = 1.0, output = 2.0, cache_read = 0.1 }

[providers.mine]
base_url = "http://localhost:8080/v1"
key_env = "MINE_KEY"
"""


def test_every_setting(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(FULL)
    assert read_settings(tmp_path) == ModelSettings(
        model="openai:gpt-5",
        summarizer="anthropic:claude-haiku-4-5",
        thinking="medium",
        max_output_tokens=9000,
        models={
            "openai:gpt-5": ModelEntry(context_window=272_000),
            "fast": ModelEntry("mine", "qwen3:8b", 40_960, 4_096, True, False, CostEntry(1.0, 2.0, 0.1)),
        },
        providers={
            "mine": Provider(
                "mine", "openai-chat", "http://localhost:8080/v1", key_env=("MINE_KEY",), needs_key=True
            )
        },
        trusted=("/project/mine",),
    )


def test_no_file_means_no_settings(tmp_path: Path) -> None:
    assert read_settings(tmp_path) == ModelSettings()
    assert read_folder_settings(tmp_path, ModelSettings()) == ModelSettings()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(
            "modle = 'x'", "modle is not used: there is no such setting; did you mean model?", id="typo"
        ),
        pytest.param("model = 7", "model is not used: Expected `str", id="a wrong type"),
        pytest.param(
            "thinking = 'hihg'", "Invalid enum value 'hihg'; did you mean high?", id="no such level"
        ),
        pytest.param(
            "model = gpt-5", "line 1: model is not used: Invalid value; a text needs quotes", id="no text"
        ),
        pytest.param('model = "a', "line 1: model is not used: Illegal character", id="an open quote"),
        pytest.param("store = 'mysql://x'", "store is not used: it must begin with", id="no such database"),
        pytest.param(
            "[models.x]\ncontext_window = 0", "models.x is not used: context_window must be 1", id="a size"
        ),
        pytest.param("[providers.x]\nbase_url = 'localhost'", "must begin with http", id="no address"),
        pytest.param("[providers.'a:b']\nbase_url = 'http://x'", "a name has no colon", id="no such name"),
        pytest.param(
            "[providers.x]\nbase_url = 'http://x'\napi_key = 'k'", "unknown field `api_key`", id="a key"
        ),
        pytest.param("[budget]\nday = '20'", "budget.day is not used: '20' is not a budget", id="a budget"),
        pytest.param(
            "[compaction]\nprepair = false", "no such setting; did you mean prepare?", id="a typo below"
        ),
        pytest.param(
            "[[hooks]]\non = 'stop'\ncommand = 'x'\ntimeuot_s = 3",
            "an entry of hooks is not used: Object contains unknown field `timeuot_s`; did you mean timeo",
            id="a typo in a hook",
        ),
    ],
)
def test_a_mistake_costs_its_own_part_alone(tmp_path: Path, text: str, problem: str) -> None:
    right = """
        max_model_calls = 3
        [permissions]
        deny = ["rm", "a && b", 7]
        [providers.y]
        base_url = "http://y"
        [models.y]
        context_window = 5
    """
    at_top, brackets, tables = text.partition("[")
    (tmp_path / "config.toml").write_text(f"{at_top}\n{right}\n{brackets}{tables}\n")
    found = read_settings(tmp_path)
    assert found.unreadable is None
    assert [rule.text for rule in found.rules.deny] == ["rm"]
    assert (found.max_model_calls, list(found.providers), list(found.models)) == (3, ["y"], ["y"])
    assert found.rules.problem == found.problems[-1]
    (told,) = [each for each in found.problems[:-1] if "an entry of permissions.deny" not in each]
    assert told.startswith(f"{tmp_path / 'config.toml'}, line ")
    assert problem in told
    assert found.model_problem == (told if "model is" in told or "model?" in told else None)


def test_a_text_is_a_list_of_one(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[permissions]\ndeny = "rm"\n')
    found = read_settings(tmp_path)
    assert ([rule.text for rule in found.rules.deny], found.problems) == (["rm"], ())


def test_a_mistake_in_a_model_costs_one_of_its_settings(tmp_path: Path) -> None:
    entry = '[models."y"]\ncontext_window = 5\nreasonning = true\nimages = 1\nmax_output_tokens = many\n'
    (tmp_path / "config.toml").write_text(entry)
    found = read_settings(tmp_path)
    assert found.models == {"y": ModelEntry(context_window=5)}
    assert [each.partition(", ")[2] for each in found.problems] == [
        "line 5: models.max_output_tokens is not used: Invalid value; a text needs quotes",
        "line 3: models.y.reasonning is not used: there is no such setting; did you mean reasoning?",
        "line 4: models.y.images is not used: Expected `bool | null`, got `int`",
    ]


@pytest.mark.parametrize(
    "text", ["[permissions]\ndeny = [rm]", "[[hooks]]\non = stop", "[budget]\nusd = two", "a = [\n  x\n]"]
)
def test_a_file_that_is_no_toml_where_it_matters_is_left_out_and_reported(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.toml").write_text(text)
    found = read_settings(tmp_path)
    assert replace(found, rules=Rules()) == ModelSettings(
        problems=found.problems, unreadable=found.problems[0]
    )
    assert "config.toml is not used: Invalid value" in found.problems[0]


@pytest.mark.parametrize(
    ("text", "may_miss_denials"),
    [
        pytest.param("[permissions]\ndeny = [rm]", True, id="a mistake in the rules"),
        pytest.param("a = [\n  x\n]\n[permissions]\ndeny = ['rm']", True, id="a mistake before the rules"),
        pytest.param("[permissions]\ndeny = ['rm | x']", True, id="a rule that is none"),
        pytest.param("[permissions]\ndenny = ['rm']", True, id="a wrong name of the list"),
        pytest.param("[permission]\ndeny = ['rm']", True, id="a wrong name of the table"),
        pytest.param("permissions = 7", True, id="a table that is none"),
        pytest.param("[permissions]\nallow = ['rm | x']", False, id="a wrong rule that allows"),
        pytest.param("[permissions]\nalow = ['rm']", False, id="a wrong name of what is allowed"),
        pytest.param("modle = 'x'\n[permissions]\ndeny = ['rm']", False, id="a mistake elsewhere"),
        pytest.param("[budget]\nusd = two", False, id="no rules at all"),
    ],
)
def test_rules_that_deny_and_cannot_be_read_are_missed(
    tmp_path: Path, text: str, may_miss_denials: bool
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(text)
    found = read_settings(tmp_path)
    assert (found.rules.problem is not None) == may_miss_denials
    assert (found.rules.problem in found.problems) == may_miss_denials
    user = UserSettings(tmp_path)
    assert user.read().rules == found.rules
    config.write_text("[permissions]\ndeny = ['rm']")
    right = user.read().rules
    assert ([each.text for each in right.deny], right.problem) == (["rm"], None)
    config.write_text("[permissions]\ndeny = [ rm ]")
    assert user.read().rules == right, "the rules of before the mistake hold"


def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    (tmp_path / "config.toml").mkdir()
    found = read_settings(tmp_path)
    assert "config.toml is not used: cannot read" in found.problems[0]
    assert found.problems[1:] == (found.rules.problem,), "nobody knows what it denies"


@pytest.mark.parametrize(
    ("text", "is_too_deep"),
    [
        pytest.param("x = " + "[" * 32 + "]" * 32, False, id="as deep as is allowed"),
        pytest.param("x = " + "[" * 33, True, id="arrays"),
        pytest.param("x = " + "{a = [" * 17, True, id="inline tables and arrays"),
        pytest.param(".".join("a" * 33) + " = 1", True, id="a dotted key"),
        pytest.param("[" + " . ".join(["'a b'"] * 33) + "]", True, id="a quoted dotted header"),
        pytest.param('x = "' + "[" * 99 + r"\"" + "[" * 99 + '"', False, id="brackets in a string"),
        pytest.param("x = '''" + "[\n" * 99 + "'''", False, id="brackets in lines of a string"),
        pytest.param("# " + "[" * 99 + "\nx = 1", False, id="brackets in a comment"),
        pytest.param("[a]\n" * 99, False, id="many tables"),
        pytest.param('"' * 200_000, False, id="quotes only, in linear time"),
        pytest.param('"\\' * 100_000, False, id="escaped quotes only, in linear time"),
        pytest.param("a" * 200_000, False, id="one long word, in linear time"),
    ],
)
def test_the_nesting_of_settings_is_judged_before_they_are_parsed(text: str, is_too_deep: bool) -> None:
    assert is_nested_too_deep(text) is is_too_deep


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("[providers.openrouter]", ("openai-chat", ("OPENROUTER_API_KEY",), "openrouter")),
        ("[providers.anthropic]", ("anthropic-messages", ("ANTHROPIC_API_KEY",), "anthropic")),
        ("[providers.openai]", ("openai-chat", ("OPENAI_API_KEY",), "openai")),
        ('[providers.openai]\napi = "openai-responses"', ("openai-responses", ("OPENAI_API_KEY",), "openai")),
        ('[providers.groq]\nkey_env = "MINE"', ("openai-chat", ("MINE",), "groq")),
        ("[providers.cohere]", ("openai-chat", (), None)),
        ("[providers.mine]", ("openai-chat", (), None)),
    ],
)
def test_a_known_provider_at_another_address_keeps_what_is_not_set(
    tmp_path: Path, entry: str, expected: tuple[str, tuple[str, ...], str | None]
) -> None:
    (tmp_path / "config.toml").write_text(f'{entry}\nbase_url = "https://proxy.example/v1"')
    (found,) = read_settings(tmp_path).providers.values()
    assert (found.api, found.key_env, found.published_as) == expected
    assert (found.base_url, found.base_url_env, found.host_env) == ("https://proxy.example/v1", None, None)


FOLDER = """
model = "openai:gpt-5"
[providers.openai]
base_url = "https://evil.example/v1"
[models.x]
context_window = 5
"""


def test_a_folder_may_choose_a_model_and_nothing_that_leads_elsewhere(tmp_path: Path) -> None:
    """Whoever wrote the folder would receive keys and conversations."""
    (tmp_path / ".sidecar.toml").write_text(FOLDER)
    found = read_folder_settings(tmp_path, ModelSettings())
    assert found == ModelSettings(model="openai:gpt-5", problems=found.problems)
    (problem,) = found.problems
    assert f'trusted = ["{tmp_path}"]' in problem


def test_no_mistake_turns_the_sandbox_off(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    for text, is_asked_for in (
        ("", False),
        ("sandbox = false", False),
        ("sandbox = true", True),
        ("thinking = 'medum'\nsandbox = true", True),
        ("sandbox = 'yes'", True),
        ("sandbox = ", True),
        ("sandobx = true", True),
        ("sandbox = false\n[oops", False),
    ):
        config.write_text(text)
        assert read_settings(tmp_path).sandbox is is_asked_for, text
    assert read_settings(tmp_path).under(ModelSettings(sandbox=True)).sandbox is False


def test_a_trusted_folder_may(tmp_path: Path) -> None:
    (tmp_path / ".sidecar.toml").write_text(FOLDER)
    found = read_folder_settings(tmp_path, ModelSettings(trusted=(str(tmp_path),)))
    assert set(found.providers) == {"openai"}
    assert found.problems == ()


def test_a_folder_cannot_trust_itself_or_another(tmp_path: Path) -> None:
    (tmp_path / ".sidecar.toml").write_text(f'trusted = ["{tmp_path}"]\n{FOLDER}')
    found = read_folder_settings(tmp_path, ModelSettings(trusted=("/elsewhere", "~nobody-has-this-name")))
    assert (found.trusted, found.providers) == ((), {})


def test_the_upper_settings_count() -> None:
    below = ModelSettings(
        model="a",
        summarizer="s",
        thinking="low",
        max_output_tokens=1,
        models={"m": ModelEntry(name="x")},
        trusted=("/t",),
        problems=("p",),
    )
    above = ModelSettings(
        model="b",
        max_output_tokens=2,
        models={"n": ModelEntry(name="y")},
        trusted=("/u",),
        problems=("q",),
    )
    assert below.under(above) == ModelSettings(
        model="b",
        summarizer="s",
        thinking="low",
        max_output_tokens=2,
        models={"m": ModelEntry(name="x"), "n": ModelEntry(name="y")},
        trusted=("/t",),
        problems=("p", "q"),
    )


def test_the_environment_names_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDUSAGI_MODEL", "openai:gpt-5")
    monkeypatch.setenv("INDUSAGI_SUMMARIZER", "")
    assert from_environment() == ModelSettings(model="openai:gpt-5")


RULES = """
[permissions]
allow = ["npm run *", "edit: docs/**"]
deny = ["git push"]
"""


def test_permission_rules_are_the_users_own(tmp_path: Path) -> None:
    """A folder cannot give itself permissions, and a trusted one neither."""
    (tmp_path / "config.toml").write_text(RULES)
    own = read_settings(tmp_path)
    assert own.rules == parse_rules(["npm run *", "edit: docs/**"], ["git push"])
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / ".sidecar.toml").write_text('model = "x"\n' + RULES.replace("git push", "ls"))
    found = read_folder_settings(folder, ModelSettings(trusted=(str(folder),)))
    assert (found.model, found.rules) == ("x", Rules())
    assert "[permissions] is not used here" in found.problems[0]
    assert own.under(found).rules == own.rules


@pytest.mark.parametrize(
    ("text", "get", "value", "name"),
    [
        ("[compaction]\nprepare = false", lambda found: found.compaction.prepare, False, "[compaction]"),
        ("fetch_private = true", lambda found: found.fetch_private, True, "fetch_private"),
        ("sandbox = true", lambda found: found.sandbox, True, "sandbox"),
    ],
)
def test_what_is_the_users_alone_to_set_is_not_taken_from_a_folder(
    tmp_path: Path, text: str, get: Callable[[ModelSettings], bool], value: bool, name: str
) -> None:
    (tmp_path / "config.toml").write_text(text)
    assert get(read_settings(tmp_path)) is value
    (tmp_path / ".sidecar.toml").write_text(text)
    found = read_folder_settings(tmp_path, ModelSettings())
    assert get(found) is not value
    assert f"{name} is not used here" in found.problems[0]
    assert found.problems[0].endswith("write it into config.toml of the state directory")


def test_the_page_of_all_settings_is_up_to_date() -> None:
    """``make reference`` writes it again; each setting has a text below it."""
    assert settings_page() == PAGE.read_text(encoding="utf-8")
