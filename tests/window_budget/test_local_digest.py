"""The local digest, and the facts that any digest keeps."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.llmgateway.contract import TextBlock, ToolCallBlock
from sidecar.window_budget import (
    BRANCH_HEADER,
    DIGEST_HEADER,
    LOCAL_DIGEST_TOKENS,
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    FactIndex,
    Message,
    ToolResultMessage,
    Transcript,
    UserMessage,
    estimate_message_tokens,
    local_fallback_digest,
)
from sidecar.window_budget.digest_layout import parse_digest
from sidecar.window_budget.local_digest import add_missing_facts, add_missing_rules, collect_rules
from sidecar.window_budget.selection import Known


def say(text: str) -> list[Message]:
    return [AssistantMessage((TextBlock(text),))]


def ask(text: str) -> list[Message]:
    return [UserMessage(text)]


def use(name: str, body: str = "ok", *, is_error: bool = False, **arguments: Any) -> list[Message]:
    key = f"{name}{sorted(arguments.items())}"
    return [
        AssistantMessage((ToolCallBlock(key, name, arguments),)),
        ToolResultMessage(key, name, (TextBlock(body),), is_error),
    ]


def noise(count: int) -> list[Message]:
    """A long stretch in which nothing special happens."""
    out: list[Message] = []
    for number in range(count):
        out += ask(f"please look at item {number} of the list and tell me about it")
        out += use("read", f"def item_{number}(): return {number}\n" * 20, path=f"src/item_{number}.py")
        out += use(
            "bash", f"{number} passed in 0.{number} s\nexit code: 0", command=f"pytest -k item_{number}"
        )
        out += say(f"Item {number} does what its name says; there is nothing to change in it.")
    return out


def cost(digest: str) -> int:
    return estimate_message_tokens(UserMessage(f"{DIGEST_HEADER}\n\n{digest}"))


PLANTED: list[tuple[list[Message], str]] = [
    (
        ask("Port the billing importer to the new index API and keep the CSV format."),
        "Port the billing importer",
    ),
    (ask("Never write to the production bucket."), "Never write to the production bucket."),
    (
        ask("From now on only use the staging account; don't touch the vendored code."),
        "don't touch the vendored code",
    ),
    (
        say("I decided to go with optimistic locking instead of a mutex."),
        "optimistic locking instead of a mutex",
    ),
    (say("The root cause is a stale cursor in the pager."), "root cause is a stale cursor in the pager"),
    (
        use("edit", path="src/billing/importer.py", old_string="retries = 3", new_string="retries = 7"),
        "src/billing/importer.py: retries = 3 -> retries = 7",
    ),
    (use("write", path="docs/migration.md", content="# Migration"), "docs/migration.md"),
    (use("read", "text", path="config/index.toml"), "config/index.toml"),
    (
        use("bash", "Process exited with code 3", command="make deploy-staging"),
        "make deploy-staging [exit 3]",
    ),
    (
        use(
            "bash",
            'Traceback (most recent call last):\n  File "x.py"\nKeyError: "total"',
            is_error=True,
            command="python replay.py",
        ),
        'KeyError: "total"',
    ),
    (use("webfetch", "HTTP 404 not found", is_error=True, url="https://index.example/v2"), "404 not found"),
    (
        [BashExecutionMessage("git push origin importer", "rejected: non-fast-forward", 1)],
        "git push origin importer [exit 1]",
    ),
    (say("The new endpoint is https://index.example/v2/entries and the ticket is LEDG-4711."), "LEDG-4711"),
    (say("The replay needs account acct_9f27c1 and a window of 90 days."), "acct_9f27c1"),
    (ask("The batch size is 2500 rows."), "2500"),
    ([CustomMessage("hook", "We will use the blue deployment slot.")], "blue deployment slot"),
    ([AssistantMessage((TextBlock("half"),), "overloaded_error: try later")], "overloaded_error: try later"),
]


@pytest.mark.parametrize("before", [0, 60], ids=["first", "behind noise"])
@pytest.mark.parametrize("after", [0, 60, 400], ids=["last", "before noise", "before much noise"])
def test_every_kind_of_planted_fact_survives(before: int, after: int) -> None:
    """Goals, rules, decisions, edits, commands with outcome, errors, identifiers: none is lost to noise."""
    facts = [message for messages, _ in PLANTED for message in messages]
    digest = local_fallback_digest([*noise(before), *facts, *noise(after)])
    assert [fact for _, fact in PLANTED if fact not in digest] == []
    assert cost(digest) <= LOCAL_DIGEST_TOKENS


def test_two_passes_lose_no_fact() -> None:
    """The second digest merges the first: same facts, no nested copy."""
    facts = [message for messages, _ in PLANTED for message in messages]
    first = local_fallback_digest(facts)
    second = local_fallback_digest(noise(30), first)
    third = local_fallback_digest([CompactionSummaryMessage(second, 0), *noise(30)])
    for digest in (second, third):
        assert [fact for _, fact in PLANTED if fact not in digest] == []
        assert digest.count("# Carryover") == 1
        assert digest.count("Port the billing importer") == 1
        assert cost(digest) <= LOCAL_DIGEST_TOKENS


def test_a_models_digest_is_carried_word_for_word() -> None:
    """As it is while it fits; our own sections follow it, and are read again on the next pass."""
    prior = "# Objective\nport the importer\n\n# Guardrails\n- be brief\n\n# Plan\nnone"
    first = local_fallback_digest(ask("Go on with the port."), prior)
    assert first == (
        "# Carryover\n1 earlier message condensed without a model.\n\n"
        f"{prior}\n\n## Requests\n- Go on with the port."
    )
    second = local_fallback_digest(ask("And now the tests."), first)
    assert second == (
        "# Carryover\n1 earlier message condensed without a model.\n\n"
        f"{prior}\n\n## Requests\n- Go on with the port.\n- And now the tests."
    )


def test_a_models_digest_that_grew_too_long_loses_the_ends_of_its_sections() -> None:
    """Guardrails first, then the top of each section; headings without content go."""
    rows = "\n".join(f"- detail {number} of the status, told at some length" for number in range(90))
    prior = (
        f"# Objective\nport it\n# Guardrails\n- never push\n- stay brief\n# Status\n{rows}\n# Plan\n1. test"
    )
    digest = local_fallback_digest(ask("Go on."), prior, max_tokens=300)
    assert cost(digest) <= 300
    assert "# Guardrails\n- never push\n- stay brief\n# Status\n- detail 0 " in digest
    assert "# Plan\n1. test" in digest
    assert "detail 89" not in digest


def test_branches_and_several_digests_are_carried() -> None:
    """An older digest is not lost when a newer one stands beside it."""
    messages: list[Message] = [
        CompactionSummaryMessage("# Plan\nalpha", 1),
        BranchSummaryMessage("tried beta", "n1"),
        UserMessage(f"{BRANCH_HEADER}\n\ntried gamma"),
        UserMessage(f"{DIGEST_HEADER}\n\n# Plan\ndelta"),
    ]
    digest = local_fallback_digest(messages)
    assert digest.startswith("# Carryover\n4 earlier messages")
    for word in ("alpha", "beta", "gamma", "delta"):
        assert digest.count(word) == 1


def test_the_first_and_the_latest_request_are_kept_at_length() -> None:
    """The others get a line where there is no room for more."""
    long = "detail " * 60
    messages = ask(f"first {long}") + ask(f"middle {long}") + ask(f"latest {long}")
    digest = local_fallback_digest(messages, max_tokens=330)
    lines = [line for line in digest.splitlines() if line.startswith("- ")]
    assert [len(line) > 300 for line in lines] == [True, False, True]


def test_prompts_are_kept_as_they_were_typed() -> None:
    """With their lines; of a long paste the middle goes. A second pass reads them again as they are."""
    typed = "Portiere den Import:\n1. CSV lesen\n## Rules\n- Fasse vendor/ nicht an"
    digest = local_fallback_digest([*ask(typed), *ask("x" * 5_000), *say("Fertig.")])
    lines = typed.replace("\n", "\n  ")
    assert f"## Requests\n- {lines}\n- xxx" in digest
    assert "[... 3000 characters cut ...]" in digest
    again = local_fallback_digest(ask("weiter"), digest)
    assert f"- {lines}\n" in again
    assert again.count("## Rules\n") == digest.count("## Rules\n")


def test_open_todos_are_those_of_the_newest_list() -> None:
    lists = [[("ship", "pending"), ("plan", "completed")], [("ship", "in_progress"), ("tell", "pending")]]
    messages = [
        message
        for items in lists
        for message in use("plan_tool", todos=[{"content": text, "status": status} for text, status in items])
    ]
    assert "## Open todos\n- ship\n- tell" in local_fallback_digest(messages)
    done = use("plan_tool", todos=[{"content": "ship", "status": "done"}])
    assert "## Open todos" not in local_fallback_digest([*messages, *done])


def test_searches_tell_what_was_looked_for_and_whether_it_was_found() -> None:
    messages = use("grep", "a.py:1: x", pattern="retry_limit", path="src") + use("glob", "", pattern="*.lua")
    assert "## Searches\n- retry_limit in src; *.lua (nothing)" in local_fallback_digest(messages)


def test_a_failure_that_the_exit_code_hides_is_told() -> None:
    output = "....\nFAILED tests/test_a.py::test_total - KeyError: 'x'\n1 failed"
    digest = local_fallback_digest(use("bash", output, command="pytest | tail -5"))
    assert "## Errors\n- pytest | tail -5: FAILED tests/test_a.py::test_total" in digest
    read = use("bash", "raise KeyError: x", command="cat notes.txt")
    assert "## Errors" not in local_fallback_digest(read)


def test_a_failed_edit_is_no_modification() -> None:
    """It is an error."""
    digest = local_fallback_digest(use("edit", "string not found", is_error=True, path="a.py"))
    assert "Files modified" not in digest
    assert "- edit a.py: string not found" in digest


def test_patches_name_their_files() -> None:
    """A patch tool takes text, not a path."""
    patch = "*** Begin Patch\n*** Update File: src/a.rs\n@@\n*** Add File: src/b.rs\n+x"
    digest = local_fallback_digest(use("apply_patch", input=patch))
    assert "## Files modified\n- src/a.rs\n- src/b.rs" in digest


@pytest.mark.parametrize("max_tokens", [0, 40, 60, 120, 500, 1500])
def test_the_budget_is_hard(max_tokens: int) -> None:
    """Never above it, the heading and the count excepted."""
    digest = local_fallback_digest(noise(40), "# Plan\n" + "word " * 9000, max_tokens)
    assert digest.startswith("# Carryover\n240 earlier messages")
    assert cost(digest) <= max(max_tokens, 35)


texts = st.text(max_size=200)
any_messages = st.lists(
    st.one_of(
        texts.map(ask),
        texts.map(say),
        st.builds(lambda body, error: use("bash", body, is_error=error, command=body), texts, st.booleans()),
        st.builds(lambda text: [CompactionSummaryMessage(text, 0)], texts),
    ),
    max_size=12,
).map(lambda groups: [message for group in groups for message in group])


@given(any_messages, st.none() | texts, st.integers(0, 400))
def test_whatever_is_said_the_digest_is_bounded_and_repeatable(
    messages: list[Message], prior: str | None, max_tokens: int
) -> None:
    """Deterministic, starts with the count, inside the budget; reading it again keeps it inside."""
    digest = local_fallback_digest(messages, prior, max_tokens)
    assert digest == local_fallback_digest(messages, prior, max_tokens)
    assert digest.startswith(f"# Carryover\n{len(messages)} earlier message")
    assert cost(digest) <= max(max_tokens, 35)
    assert cost(local_fallback_digest([], digest, max_tokens)) <= max(max_tokens, 35)


def test_a_rule_is_kept_word_for_word() -> None:
    """A long one too, while other sentences are cut."""
    rule = "Never write to " + ", ".join(f"the {name} bucket" for name in "abcdefghijklmnopqr") + "."
    decision = "I decided to go with " + ", then ".join(f"step {name}" for name in "abcdefghijklmnopqr") + "."
    assert len(rule) > 250
    digest = local_fallback_digest(ask(f"Port it. {rule}") + say(decision), max_tokens=260)
    assert f"\n- {rule}\n" in digest
    assert decision not in digest
    assert decision[:150] in digest


def test_rules_have_a_part_of_the_digest_before_all_else() -> None:
    rules = [f"Never rename {letter * 3}." for letter in "abcdefghijklmnopqrst"]
    messages = [message for rule in rules for message in (*ask(f"Go on. {rule}"), *noise(3))]
    digest = local_fallback_digest(messages)
    assert [rule for rule in rules if f"- {rule}" not in digest] == []


def test_of_what_earlier_digests_carry_the_newest_outlives_the_oldest() -> None:
    """But for rules, which do not age."""
    digest: str | None = None
    for number in range(40):
        hour = [
            *ask(f"Hour {number}. Never touch api_{number}.py."),
            *use("bash", f"KeyError: 'field_{number}'", is_error=True, command=f"make hour_{number}"),
            *noise(12),
        ]
        digest = local_fallback_digest(hour, digest, max_tokens=700)
    assert digest is not None
    assert "'field_38'" in digest
    assert "'field_0'" not in digest
    assert "Never touch api_0.py." in digest


def test_a_sentence_that_is_request_and_rule_is_kept_once() -> None:
    messages = [*ask("Start."), *ask("Never touch api.py."), *noise(2), *ask("And now the tests, please.")]
    assert local_fallback_digest(messages).count("Never touch api.py.") == 1


def test_how_a_file_was_changed_gives_way_before_that_it_was() -> None:
    edits = [
        use("edit", path=f"src/part_{n}.py", old_string="x = " + "1" * 60, new_string="x = " + "2" * 60)
        for n in range(12)
    ]
    first = local_fallback_digest([message for edit in edits for message in edit])
    second = local_fallback_digest(noise(8), first, max_tokens=500)
    assert sum(f"src/part_{n}.py" in second for n in range(12)) >= 6
    assert "src/part_11.py: x = 1" in local_fallback_digest(ask("go on"), first)


RULE = "Never touch the generated files."


@pytest.mark.parametrize(
    ("digest", "expected"),
    [
        pytest.param(f"# Guardrails\n- {RULE}", f"# Guardrails\n- {RULE}", id="already there"),
        pytest.param(
            "# Guardrails\n* never TOUCH the\n  generated files",
            "# Guardrails\n* never TOUCH the\n  generated files",
            id="the words decide, not case, bullets or line ends",
        ),
        pytest.param(
            "# Guardrails\nnone\n\n# Plan\nship", f"# Guardrails\n- {RULE}\n# Plan\nship", id="none goes"
        ),
        pytest.param(
            "# Guardrails\n- be brief\n# Plan",
            f"# Guardrails\n- be brief\n- {RULE}\n# Plan",
            id="others stay",
        ),
        pytest.param("# Guardrails", f"# Guardrails\n- {RULE}", id="an empty last section"),
        pytest.param("# Plan\nship", f"# Guardrails\n- {RULE}\n\n# Plan\nship", id="no such section"),
    ],
)
def test_a_rule_the_model_dropped_is_put_back(digest: str, expected: str) -> None:
    """Under its heading, once, and nothing else is changed."""
    assert add_missing_rules(digest, (RULE,)) == expected
    assert add_missing_rules(expected, (RULE,)) == expected


def test_rules_come_from_prompts_and_from_earlier_digests() -> None:
    """Of a model's guardrails, of our own section, and as the user set them since."""
    index = FactIndex().extend([UserMessage("Use tabs? Always use tabs.\nhello"), UserMessage("Never push.")])
    carried = parse_digest("# Guardrails\n- be brief\n- none\n# Plan\n- push\n## Rules\n- stay in src")
    assert collect_rules(Known(index, 2, carried)) == (
        "be brief",
        "stay in src",
        "Always use tabs.",
        "Never push.",
    )
    assert collect_rules(Known(index, 1)) == ("Always use tabs.",)


def test_required_rules_are_bounded() -> None:
    """A thousand rules do not fill the window; the newest are among those kept."""
    index = FactIndex().extend(
        [UserMessage(f"Never touch {name}.") for name in map("file{}".format, "abcdefgh" * 99)]
    )
    rules = collect_rules(Known(index, len(index)))
    assert sum(map(len, rules)) < 600 * 3.6
    assert "Never touch fileh." in rules


def test_evidence_a_model_leaves_out_is_listed() -> None:
    """In the sections that the next pass reads again; what is mentioned is not repeated."""
    messages: list[Message] = [
        AssistantMessage(
            (
                ToolCallBlock(
                    "1", "edit", {"path": "src/a.py", "old_string": "x = 1", "new_string": "x = 2"}
                ),
                ToolCallBlock("2", "bash", {"command": "make test"}),
            )
        ),
        ToolResultMessage("1", "edit", (TextBlock("ok"),)),
        ToolResultMessage("2", "bash", (TextBlock("exit code: 2\nValueError: no port"),)),
    ]
    index = FactIndex().extend(messages)
    digest = add_missing_facts("# Plan\nrun make test again", Known(index, 3))
    assert digest == (
        "# Plan\nrun make test again\n# Carryover\n## Files modified\n- src/a.py: x = 1 -> x = 2\n"
        "## Errors\n- make test [exit 2]: ValueError: no port"
    )
    assert add_missing_facts(digest, Known(index, 3, parse_digest(digest))) == digest


def test_numbers_and_outcomes_that_a_model_left_out_are_added() -> None:
    """Also those behind the beginning of a prompt that the model did mention."""
    prompt = f"Speed up the importer{' and tell me how' * 8}; the limit is 5878 per tenant"
    messages = [*ask(prompt), *say("I looked at all of it. row_store now answers within 310 ms.")]
    digest = add_missing_facts(f"# Plan\n{prompt[:90]}", Known(FactIndex().extend(messages), 2), 2_000)
    assert "the limit is 5878 per tenant" in digest
    assert "row_store now answers within 310 ms." in digest


def test_the_first_requests_and_decisions_of_a_long_session_stay() -> None:
    names = ["".join(chr(97 + int(digit)) for digit in str(number)) for number in range(1_000, 1_300)]
    messages = [
        message
        for name in names
        for message in (*ask(f"Speed up the part {name}."), *say(f"I chose {name} instead of the queue."))
    ]
    digest = local_fallback_digest(messages, max_tokens=3_000)
    assert all(f"part {name}." in digest and f"chose {name} " in digest for name in names[:16])


def test_the_digest_before_stays_whole_beside_1500_tokens() -> None:
    """Where a size is given it holds, and half of it belongs to the digest before."""
    prior = "# Status\n" + "\n".join(f"- the service {n} answers at {7919 * n}" for n in range(200))
    digest = local_fallback_digest([*ask("Never push."), *noise(30)], prior)
    assert prior in digest
    assert "- Never push." in digest
    assert cost(local_fallback_digest(ask("Never push."), prior, 1_500)) <= 1_500


def test_without_a_model_no_message_is_flattened(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of a transcript, as long as the conversation, is for a model that summarises."""
    monkeypatch.delattr("sidecar.window_budget.scrollback.flatten_message")
    transcript = Transcript.of([UserMessage("Fix src/a.py."), CompactionSummaryMessage("# Plan\nship it", 0)])
    digest = local_fallback_digest(transcript)
    assert "Fix src/a.py." in digest
    assert "ship it" in digest
