"""The compacted view of one conversation, kept and extended from call to call.

The problem: the agent loop hands in its whole history before every model call, and stores none of the
compactions. Summarising anew each time would cost a model call for every call of the agent. So the engine
remembers its compactions and finds its way back to them:

- A :class:`Checkpoint` is one compaction that was made: the messages it *covered*, and the view that stood
  for them. A history that begins with exactly those messages is shown behind that view's head; any edit,
  rewind or branch in front of the checkpoint's end makes it another conversation.
- A :class:`Track` follows one conversation as it grows, and weighs it. A call with a longer history costs
  one comparison by identity for each known message and the weighing of each new one.

Example: messages 1 to 80 were condensed into S, with prompt 79 pinned. The history of 90 messages is shown
as ``S 79 81 ... 90``; the next 10 messages are appended, and weighed once.

Messages that are too large for their place are cut, with a visible marker; the originals stay at hand, so
that a later summary reads them in full.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from sidecar._internal.values import Value
from sidecar.agentcore.estimate import (
    BYTES_PER_TOKEN,
    block_bytes,
    byte_length,
    clip_middle,
    context_after,
    cost_in_prompt,
    find_usage,
    is_stale,
)
from sidecar.agentcore.messages import (
    AgentMessage,
    CompactionSummary,
    ContentBlock,
    Message,
    ToolCall,
    text_block,
)
from sidecar.agentcore.plan import CutPlan
from sidecar.text.clip import fair_cap

LEFT_OUT_IMAGE = "[image left out]"


class Checkpoint(Value):
    """A compaction that was made: the messages it *covered* are shown as the head of its *view*.

    Attributes:
        covered: the beginning of a history, message for message.
        view: the whole view of that moment, as it was returned.
        originals: the messages of *view* in their full length.
        n_head: how many messages of *view* stand for *covered*: the summary, the pinned prompt, shrunk items.
    """

    covered: list[AgentMessage]
    view: list[AgentMessage]
    originals: list[AgentMessage]
    n_head: int


class Track:
    """The view of one conversation and its weight; extending it costs only the new messages.

    Attributes:
        inputs: the history so far.
        checkpoint: its head stands for the first *n_covered* inputs; None when there is none.
        view: that head, then the other inputs as they are.
        originals: the messages of *view* in their full length.
        costs: tokens of each message of *view* in a prompt; *plain* is their sum.
        n_head: how many messages of *view* are the head.
        n_settled: how many messages of *view* are older than its last change; the usage that they report
            describes prompts that are no longer sent.
    """

    __slots__ = (
        "_anchor",
        "_summary",
        "_trailing",
        "checkpoint",
        "costs",
        "inputs",
        "n_covered",
        "n_head",
        "n_settled",
        "originals",
        "plain",
        "view",
    )

    def __init__(
        self,
        inputs: list[AgentMessage],
        covering: Checkpoint | None = None,
        returned: Checkpoint | None = None,
    ) -> None:
        """Weigh *inputs*.

        Args:
            inputs: a history; it begins with the covered messages of *covering*, or the view of *returned*.
            covering: the checkpoint to show in place of its covered messages, or None.
            returned: the checkpoint that the history goes on from, or None.
        """
        newest = covering or returned
        self.checkpoint = covering
        self.n_covered = len(covering.covered) if covering else 0
        self.n_head = covering.n_head if covering else 0
        self.n_settled = len(newest.view) if newest else 0
        self.inputs = list(inputs)
        self.view: list[AgentMessage] = []
        self.originals: list[AgentMessage] = []
        self.costs: list[int] = []
        self.plain = 0
        self._anchor = 0
        self._trailing = 0
        self._summary: CompactionSummary | None = None
        self._extend([*(covering.view[: self.n_head] if covering else []), *inputs[self.n_covered :]])
        if newest is not None:
            n_known = self.n_head if covering else len(newest.originals)
            self.originals[:n_known] = newest.originals[:n_known]

    def extend_to(self, messages: list[AgentMessage]) -> bool:
        """Extend this track to *messages*, or return False when they are another conversation.

        Every message seen so far is compared, by identity first, which is a pointer comparison each.
        """
        n_known = len(self.inputs)
        new = messages[n_known:]
        self.inputs.extend(new)
        if self.inputs != messages:
            del self.inputs[n_known:]
            return False
        self._extend(new)
        return True

    def tokens(self, overhead: int) -> int:
        """Return the size of the next prompt: the larger of the plain and the hybrid estimate.

        The plain one adds *overhead*; the hybrid one starts from the newest trusted usage, its output
        included.
        """
        hybrid = self._anchor + self._trailing if self._anchor else 0
        return max(self.plain + overhead, hybrid)

    def _extend(self, new: list[AgentMessage]) -> None:
        for message in new:
            cost = cost_in_prompt(message)
            self.view.append(message)
            self.costs.append(cost)
            self.plain += cost
            if isinstance(message, CompactionSummary):
                self._summary, self._anchor = message, 0
            usage = find_usage(message)
            is_settled = len(self.view) <= self.n_settled
            if not self.n_settled and self._summary is not None:
                is_settled = is_stale(message, self._summary)
            if usage is None or is_settled:
                self._trailing += cost
            else:
                self._anchor, self._trailing = context_after(message, usage), 0
        self.originals.extend(new)


def find_checkpoint(messages: list[AgentMessage], checkpoints: Sequence[Checkpoint]) -> Checkpoint | None:
    """Return the longest checkpoint that covers the beginning of *messages*, or None."""
    matching = [c for c in checkpoints if messages[: len(c.covered)] == c.covered]
    return max(matching, key=lambda checkpoint: len(checkpoint.covered), default=None)


def start_track(messages: list[AgentMessage], checkpoints: Sequence[Checkpoint]) -> Track:
    """Return a new track of *messages*: behind the checkpoint that covers their beginning, if there is one.

    Messages that begin with a view that was returned need no checkpoint: their summary stands among them.
    """
    checkpoint = find_checkpoint(messages, checkpoints)
    if checkpoint is not None:
        return Track(messages, covering=checkpoint)
    returned = (c for c in checkpoints if messages[: len(c.view)] == c.view)
    return Track(messages, returned=next(returned, None))


def make_checkpoint(track: Track, plan: CutPlan, summary: CompactionSummary | None) -> Checkpoint:
    """Return the checkpoint after *plan* was carried out.

    Args:
        track: the conversation that was planned for.
        plan: which messages give way, and which are shrunk.
        summary: the message that stands for the dropped ones; None where the plan only shrinks.
    """
    shown = list(track.view)
    for index, tokens in plan.shrink:
        shown[index] = shrink_message(track.originals[index], tokens)
    # The head ends where the inputs are shown as they are again.
    head_end = max([plan.cut, track.n_head, *(index + 1 for index, _ in plan.shrink)])
    kept = [i for i in (plan.pinned, *range(plan.cut, len(shown))) if i >= 0]
    leading: list[AgentMessage] = [] if summary is None else [summary]
    view = [*leading, *(shown[i] for i in kept)]
    return Checkpoint(
        covered=track.inputs[: track.n_covered + head_end - track.n_head],
        view=view,
        originals=[*leading, *(track.originals[i] for i in kept)],
        n_head=len(view) - (len(shown) - head_end),
    )


def shrink_message(message: AgentMessage, limit_tokens: int) -> AgentMessage:
    """Return *message* cut to about *limit_tokens*; its largest blocks pay first.

    Text and thinking lose their middle, an image becomes a note, and of a call's arguments the long strings
    are cut, so that they stay JSON. Role, calls and ids stay, so that pairs stay pairs. Anything that cannot
    be cut further stays as it is.

    >>> shrink_message(Message("user", (text_block("x" * 400),)), 15).text_content()
    'xxxxxxxxxxxxxxxxxxx\\n[... 375 characters left out ...]\\nxxxxxx'
    """
    limit = limit_tokens * BYTES_PER_TOKEN
    if isinstance(message, CompactionSummary):
        return replace(message, summary=clip_middle(message.summary, limit))
    if not isinstance(message, Message):
        return message
    sizes = [block_bytes(block) for block in message.content]
    cap = fair_cap(sizes, limit)
    content: list[ContentBlock] = []
    for block, size in zip(message.content, sizes, strict=True):
        cut = block
        if size > cap and block.type == "image":
            cut = text_block(LEFT_OUT_IMAGE)
        elif size > cap and block.tool_call is not None:
            room = cap - byte_length(block.tool_call.name)
            cut = replace(block, tool_call=cut_arguments(block.tool_call, room))
        elif size > cap:
            cut = replace(block, text=clip_middle(block.text, cap), thinking=clip_middle(block.thinking, cap))
        content.append(cut)
    return replace(message, content=tuple(content))


def cut_arguments(call: ToolCall, limit: int) -> ToolCall:
    """Return *call* with its arguments as a JSON object of about *limit* bytes, its longest strings cut."""
    value = call.arguments()
    if value is not None:
        strings = {key: text for key, text in value.items() if isinstance(text, str)}
        sizes = [byte_length(_dump(text)) for text in strings.values()]
        cap = fair_cap(sizes, limit - (byte_length(_dump(value)) - sum(sizes)))
        cut = _dump({**value, **{key: _clip_json(text, cap) for key, text in strings.items()}})
        if byte_length(cut) <= limit:
            return replace(call, args=cut)
    return replace(call, args=_dump({"left_out": _clip_json(call.args, max(limit - 20, 0))}))


def _clip_json(text: str, cap: int) -> str:
    """Return *text* so that its JSON form takes about *cap* bytes: its escapes, and the marker's, count."""
    size = byte_length(_dump(text))
    return text if size <= cap else clip_middle(text, max(byte_length(text) * cap // size - 4, 0))


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
