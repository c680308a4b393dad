"""Commands that the user runs: a prompt of one line that begins with ``!``.

The command goes the way of the model's own: through the bash tool, with its environment, its sandbox and its
permissions. In the sandbox it runs unasked, for the user has just typed it, and there it has no network and
writes only in the session's folders. Without a sandbox it asks wherever the tool would: a client may pass on
prompts that its user never wrote. Rules that deny and the mode ``plan`` hold in any case.

A command that ran is part of the conversation, with its output. No model is called for it; the next prompt
shows it to the model. A refused one is no part of it.
"""

from __future__ import annotations

import re
from contextlib import nullcontext
from typing import Final

from sidecar._internal.cancel import CancelToken
from sidecar.conductor.record.session_record import SessionRecord
from sidecar.conductor.session_ops import messages_to_turns
from sidecar.conductor.workbench.workbench import Workbench
from sidecar.conversation import Entry
from sidecar.runtime.contract import ToolCall
from sidecar.window_budget import BashExecutionMessage

_TOOL: Final = "bash"
_END: Final = re.compile(r"\n?\[(?:exit (-?\d+|None)|timed out after [^\n]*|cancelled)\]\Z")
"""The last line of the tool's output for a command that ran."""


async def run_user_command(
    command: str, record: SessionRecord, workbench: Workbench, cancel: CancelToken
) -> str:
    """Run *command* in a session and return its output, or the reason why it did not run."""
    if _TOOL not in workbench.tools.effects():
        return f"This session has no tool {_TOOL}, so that commands cannot be run in it."
    call_id = record.new_id()
    workbench.checkpoints.leave_out(call_id)
    with workbench.permissions.skip_question(call_id) if workbench.is_sandboxed else nullcontext():
        outcome = await workbench.tools.runner.run(ToolCall(call_id, _TOOL, {"command": command}), cancel)
    output = str(outcome.output)
    reads = record.history.take_reads(call_id)
    end = _END.search(output)
    if end is not None:
        exit_code = int(end[1]) if end[1] and end[1] != "None" else None
        shown = output if exit_code is None else output[: end.start()]
        (turn,) = messages_to_turns([BashExecutionMessage(command, shown, exit_code)])
        async with record.history.transaction():
            await record.store()
            await record.history.append(Entry(turn, "shell", reads=reads))
    fence = "`" * (4 if "```" in output else 3)
    return f"{fence}\n{output}\n{fence}"
