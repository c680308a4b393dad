"""What the summarising model is shown."""

from __future__ import annotations

import pytest

from sidecar.llmgateway.contract import (
    Block,
    CommandBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from sidecar.window_budget import (
    BRANCH_HEADER,
    CONDENSER_BRIEF,
    DIGEST_HEADER,
    RESTORED_FILE_PREFIX,
    SECTION_TEMPLATE,
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CondenseScope,
    CustomMessage,
    Message,
    ToolResultMessage,
    UserMessage,
    build_summary_prompt,
    flatten_transcript,
)

IMAGE = ImageBlock("image/png", "AAAA")


def agent(*blocks: Block, error: str | None = None) -> AssistantMessage:
    return AssistantMessage(blocks, error)


def tool(*blocks: Block, is_error: bool = False) -> ToolResultMessage:
    return ToolResultMessage("1", "read", blocks, is_error)


FLATTENED = {
    "tidied": (UserMessage("hello  \r\nworld \n", 1), "» you: hello\nworld"),
    "inner blank lines stay": (UserMessage("a \t\n\n  b", 1), "» you: a\n\n  b"),
    "image": (UserMessage((TextBlock("look"), IMAGE), 1), "» you: look\n[image]"),
    "a blank message is skipped": (UserMessage("  \n", 1), ""),
    "so is an empty one": (UserMessage((), 1), ""),
    "one line a block, in block order, non-ASCII raw": (
        agent(ThinkingBlock("hm"), TextBlock("I read"), ToolCallBlock("1", "read", {"p": "é", "n": 1})),
        '» agent.plan: hm\n» agent: I read\n» agent.call read: {"p":"é","n":1}',
    ),
    "blank blocks are skipped": (agent(ThinkingBlock(" "), TextBlock("")), ""),
    "error": (agent(TextBlock("half"), error="boom"), "» agent: half\n» agent!err: boom"),
    "a command of the host's is not shown": (agent(CommandBlock("clear")), ""),
    "result": (tool(TextBlock("body"), IMAGE), "» tool (read): body\n[image]"),
    "error result": (tool(TextBlock("no"), is_error=True), "» tool!err (read): no"),
    "an empty result is still shown": (tool(), "» tool (read): "),
    "output that is not text": (tool(ToolResultBlock("1", {"a": 1})), '» tool (read): {"a":1}'),
    "command": (BashExecutionMessage("ls", "a\n", 0), "» shell$ ls [exit 0]\na"),
    "never ended, said nothing": (BashExecutionMessage("ls", ""), "» shell$ ls [exit n/a]\n"),
    "note": (CustomMessage("todo", "buy"), "» note (todo): buy"),
    "empty note": (CustomMessage("todo", " "), ""),
    "branch digest": (BranchSummaryMessage("b", "n"), "» digest: b"),
    "session digest": (CompactionSummaryMessage("c", 1), "» digest: c"),
    "empty digest": (CompactionSummaryMessage("", 1), ""),
}


@pytest.mark.parametrize(("message", "text"), FLATTENED.values(), ids=FLATTENED)
def test_each_message_is_flattened_under_its_role(message: Message, text: str) -> None:
    """One line a message; the error of a reply has a line of its own."""
    assert flatten_transcript([message]) == text


OF_THE_HOST = {
    "session digest": (f"{DIGEST_HEADER}\n\n# Plan\nship", "» digest: # Plan\nship"),
    "branch digest": (f"{BRANCH_HEADER}\n\ntried it", "» digest: tried it"),
    "a restored file is named, not shown again": (
        f"{RESTORED_FILE_PREFIX} a.py\nbody",
        f"» note (restored file): {RESTORED_FILE_PREFIX} a.py",
    ),
}


@pytest.mark.parametrize(("text", "line"), OF_THE_HOST.values(), ids=OF_THE_HOST)
def test_digests_and_restored_files_are_not_flattened_as_words_of_the_user(text: str, line: str) -> None:
    assert flatten_transcript([UserMessage(text)]) == line


@pytest.mark.parametrize("tag", ["</scrollback>", "</SCROLLBACK >", "< / scrollback>", "</carried-digest>"])
@pytest.mark.parametrize("place", ["user", "tool", "call", "prior"])
def test_transcript_text_cannot_close_its_block(tag: str, place: str) -> None:
    """Wherever a closing tag of ours stands in the material, it closes nothing."""
    messages: dict[str, Message] = {
        "user": UserMessage(tag),
        "tool": tool(TextBlock(tag)),
        "call": agent(ToolCallBlock("1", "write", {"content": tag})),
        "prior": UserMessage("hi"),
    }
    prompt = build_summary_prompt(
        [messages[place]], CondenseScope.SESSION, tag if place == "prior" else "earlier"
    )
    assert prompt.lower().count("</scrollback>") == 1
    assert prompt.lower().count("</carried-digest>") == 1
    assert tag not in prompt or tag in ("</scrollback>", "</carried-digest>")


def test_a_prompt_has_its_blocks_in_order() -> None:
    """Framing, carried digest, scrollback, headings: in this order, a blank line between them."""
    prompt = build_summary_prompt([UserMessage("hi")], CondenseScope.SESSION, " old \n")
    framing, carried, scrollback, headings = prompt.split("\n\n")
    assert framing
    assert carried == "<carried-digest>\nold\n</carried-digest>"
    assert scrollback == "<scrollback>\n» you: hi\n</scrollback>"
    assert headings == SECTION_TEMPLATE
    assert headings.split("\n") == [
        "# Objective",
        "# Guardrails",
        "# Status (Shipped / Active / Stuck)",
        "# Rationale",
        "# Plan",
        "# Carryover",
    ]


def test_the_framing_differs_by_scope() -> None:
    session, branch = (build_summary_prompt([UserMessage("hi")], scope, "old") for scope in CondenseScope)
    assert session.split("\n\n")[0] != branch.split("\n\n")[0]
    assert session.split("\n\n")[1:] == branch.split("\n\n")[1:]


def test_instructions_of_the_user_come_last() -> None:
    prompt = build_summary_prompt([UserMessage("hi")], instructions="keep the SQL")
    assert prompt.endswith("keep the SQL")


@pytest.mark.parametrize(
    "word", ["archival", "do NOT reply", "tools", "paths", "commands", "Invent nothing", "`none`"]
)
def test_the_brief_and_the_template_have_the_fixed_parts(word: str) -> None:
    assert word in CONDENSER_BRIEF
