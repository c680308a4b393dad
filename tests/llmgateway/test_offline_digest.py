"""``offline-1`` asked to condense: exactly the headings wanted, filled with what was said."""

from __future__ import annotations

import pytest

from sidecar.llmgateway import collect_reply
from sidecar.llmgateway.contract import Conversation, StreamOptions, TextBlock, ToolDescriptor, UserTurn
from sidecar.llmgateway.offline import offline_model
from sidecar.llmgateway.offline.digest import (
    DigestRequest,
    TranscriptEntry,
    digest_request,
    read_transcript,
    write_digest,
)

BRIEF = "You record transcripts. Write the digest under the headings given."
ARROWS = """\
» you: Fix the parser in src/p.py.
Never touch main.
» agent.plan: hm
» agent: I look.
» agent.call read: {"path":"src/p.py"}
» agent.call bash: {"command":"pytest -q \\"x\\""}
» tool (read): body
» tool!err (bash): collecting
E   AssertionError: 3 != 4
exit code 1
» shell$ ls -la [exit 0]
out
» agent: I decided on a table because ifs are slow. Next I run the tests.
» agent.call edit: {"path":"src/p.py"}
» tool (edit): done
"""
HEADINGS = "# Objective\n# Guardrails\n# Status (Shipped / Active / Stuck)\n# Rationale\n# Plan\n# Carryover"


def digest(prompt: str, system: str = BRIEF, max_tokens: int | None = None) -> str:
    request = digest_request(system, prompt)
    assert request is not None
    return write_digest(request, max_tokens=max_tokens)


def test_the_headings_of_window_budget() -> None:
    assert digest(f"<scrollback>\n{ARROWS}</scrollback>\n\n{HEADINGS}") == (
        "# Objective\n- Fix the parser in src/p.py. Never touch main.\n\n"
        "# Guardrails\n- Never touch main.\n\n"
        "# Status (Shipped / Active / Stuck)\n- bash: E AssertionError: 3 != 4\n- src/p.py (edit)\n"
        "- I decided on a table because ifs are slow. Next I run the tests.\n\n"
        "# Rationale\n- I decided on a table because ifs are slow.\n\n"
        "# Plan\n- Next I run the tests.\n\n"
        '# Carryover\n- src/p.py (read)\n- `pytest -q "x"` -> exit 1\n- `ls -la` -> exit 0'
    )


def test_a_carried_digest_is_carried_on_under_its_headings() -> None:
    carried = "# Objective\n- old goal\n# Guardrails\nnone\n# Elsewhere\n- port 8080"
    scrollback = "<scrollback>\n» you: go on\n</scrollback>"
    assert digest(f"<carried-digest>\n{carried}\n</carried-digest>\n{scrollback}\n{HEADINGS}") == (
        "# Objective\n- old goal\n- go on\n\n# Guardrails\nnone\n\n"
        "# Status (Shipped / Active / Stuck)\nnone\n\n# Rationale\nnone\n\n"
        "# Plan\nnone\n\n# Carryover\n- port 8080"
    )


BRACKETS = """\
[User]: Ship it. Always sign commits.

[Assistant tool calls]: read(path="a.py"); bash(command="make")

[Tool result]: text

[Tool result error]: make: failed
exit status 2

[Assistant]: It failed."""


def test_the_headings_of_agentcore_with_deeper_ones() -> None:
    headings = "## Goal\n## Progress\n### Done\n### Blocked\n## Critical Context"
    prompt = (
        f"<conversation>\n{BRACKETS}\n</conversation>\n\nSummarise under exactly these headings:\n{headings}"
    )
    assert digest(prompt) == (
        "## Goal\n- Ship it. Always sign commits.\n\n## Progress\n- It failed.\n\n### Done\nnone\n\n"
        "### Blocked\n- tool: make: failed\n\n"
        "## Critical Context\n- Always sign commits.\n- a.py (read)\n- `make` -> exit 2"
    )


def test_headings_named_in_prose() -> None:
    wanted = "Summarise with the headings Goal; Key Decisions; Critical Context."
    prompt = f"<conversation>\n[User]: go\n</conversation>\n{wanted}"
    assert digest(prompt) == "## Goal\n- go\n\n## Key Decisions\nnone\n\n## Critical Context\nnone"


def test_notes_without_headings_or_tags() -> None:
    prompt = (
        "Write the notes of the conversation below.\n\nNotes on what came before:\nthe port is 8080\n\n"
        "Conversation:\n[user]: use tabs only\n[assistant]: fine"
    )
    assert digest(prompt, "You keep the notes of a conversation.") == (
        "- the port is 8080\n- use tabs only\n- fine"
    )


@pytest.mark.parametrize(
    ("system", "prompt"),
    [
        pytest.param("be good", "hello", id="a greeting"),
        pytest.param(
            "# Rules\nSummarise long answers.", "summarise `this`", id="a system prompt with headings"
        ),
        pytest.param("be good", "» you: what does this line mean?", id="a quoted transcript"),
        pytest.param(BRIEF, "", id="nothing to condense"),
    ],
)
def test_a_prompt_that_requests_no_digest(system: str, prompt: str) -> None:
    assert digest_request(system, prompt) is None


def test_a_digest_is_bounded_and_keeps_first_and_newest() -> None:
    lines = "\n".join(f"» you: request {i} " + "please " * 30 for i in range(300))
    prompt = f"<scrollback>\n{lines}\n</scrollback>\n{HEADINGS}"
    text = digest(prompt)
    assert len(text) <= 6_000
    assert all(wanted in text for wanted in ("request 0 ", "request 299 "))
    assert len(digest(prompt, max_tokens=200)) <= 800


def test_the_transcript_ends_at_its_last_closing_tag() -> None:
    request = digest_request(BRIEF, f"<scrollback>\n» you: </scrollback> in text\n</scrollback>\n{HEADINGS}")
    assert request == DigestRequest(tuple(HEADINGS.split("\n")), "» you: </scrollback> in text", "")


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        pytest.param("", [], id="nothing"),
        pytest.param("just words", [TranscriptEntry("digest", "just words")], id="no transcript"),
        pytest.param(
            "user:\n[condensed earlier context]\n# Rules\n- tabs\n\ntool:\ntool_result (error) -> no\nway",
            [TranscriptEntry("digest", "# Rules\n- tabs"), TranscriptEntry("error", "no\nway")],
            id="roles, with an earlier digest",
        ),
        pytest.param(
            "» you: [Restored file after compaction] a.py\nx = 1",
            [TranscriptEntry("other", "[Restored file after compaction] a.py\nx = 1")],
            id="restored files are nobody's words",
        ),
    ],
)
def test_transcripts(text: str, entries: list[TranscriptEntry]) -> None:
    assert list(read_transcript(text)) == entries


async def test_the_model_condenses_when_it_has_no_tools() -> None:
    prompt = UserTurn((TextBlock(f"<scrollback>\n{ARROWS}</scrollback>\n\n{HEADINGS}"),))
    conversation = Conversation((prompt,), system=BRIEF)
    reply = await collect_reply(offline_model()(conversation, StreamOptions()))
    assert reply.blocks == (TextBlock(digest(f"<scrollback>\n{ARROWS}</scrollback>\n\n{HEADINGS}")),)
    with_tools = Conversation((prompt,), system=BRIEF, tools=(ToolDescriptor("read", "", {}),))
    other = await collect_reply(offline_model()(with_tools, StreamOptions()))
    assert other.blocks != reply.blocks
