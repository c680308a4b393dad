"""``sidecar run``: one prompt; the answer on standard output, everything else on standard error.

An answer can be printed as it is written, as one JSON object with the result, or as one line of JSON for
each event. With a JSON schema the answer is a JSON value: one that does not match is asked for once more.

The daemon is started before the modules that show the answer are loaded: both take as long.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING, Final

from sidecar.commands.with_daemon import report_problem, run_with_daemon
from sidecar_client import TurnLimits, allow

if TYPE_CHECKING:
    from argparse import Namespace

    from sidecar.commands.answering import Answering
    from sidecar.commands.structured_output import OutputSchema

WRONG_ARGUMENTS: Final = 2

_EMPTY_PROMPT: Final = """\
sidecar run: the prompt is empty; type a task, as in
  sidecar run "what is in README.md?"
  git diff | sidecar run "what does this change?" -"""


def run(options: Namespace) -> int:
    """Run the prompt and return the exit code, 0 when it was answered."""
    words = [word for word in options.prompt if word != "-"]
    piped = ""
    if sys.stdin is not None and ("-" in options.prompt or not (options.prompt or sys.stdin.isatty())):
        piped = sys.stdin.read()
    prompt = "\n\n".join(part for part in (" ".join(words), piped) if part)
    if not prompt.strip():
        report_problem(_EMPTY_PROMPT)
        return WRONG_ARGUMENTS
    schema: OutputSchema | None = None
    try:
        if options.output_schema is not None:
            from sidecar.commands.structured_output import OutputSchema  # not above: it loads a library

            schema = OutputSchema.read(options.output_schema)
        limits = read_limits(options)
    except ValueError as error:
        report_problem(f"sidecar run: {error}")
        return WRONG_ARGUMENTS

    @cache
    def load_answering() -> Answering:
        from sidecar.commands.answering import Answering  # not above: see the head of this module

        return Answering(options, prompt, limits, schema)

    return run_with_daemon(
        lambda client: load_answering().answer(client),
        options.cwd,
        permission=allow if options.yes else lambda request: load_answering().refuse(request),
        elicit=lambda form: load_answering().fill_in(form),
    )


def read_limits(options: Namespace) -> TurnLimits:
    """Return the limits of the turn. Raises ValueError for a rule or a budget that is not one."""
    limits = TurnLimits()
    if options.max_turns is not None:
        limits["max_model_calls"] = options.max_turns
    if options.budget is not None:
        from sidecar.llmgateway.budget import parse_budgets  # not above: few runs have a budget

        budgets = parse_budgets(options.budget)
        if len(budgets) != 1:
            raise ValueError(f"--budget is for one period, not {options.budget!r}")
        limits["budget"] = budgets[0]
    if options.allow:
        from sidecar.permissions.rules import parse_rules  # not above: few runs have rules

        parse_rules(options.allow, ())
        limits["allow"] = tuple(options.allow)
    return limits
