"""``make bench-peers``: this agent and four others on one fake model, in one table.

Installs the others from npm into ``.peers`` where they are missing. All run the same tasks in turns, and the
smallest figure of each counts. Nothing is asserted: the table is for reading. One that cannot be installed or
driven is named below the table, with the reason.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from peers.fake_models import FILES, FakeModels, Task
from peers.hosted import AgentFailedError
from peers.measuring import Place, Run, run_hosted, run_once
from peers.programs import OURS, PEERS, Program
from peers.table import format_table, per_step

ROUNDS: Final = 3
_FEW_READS: Final = 5
_MANY_READS: Final = len(FILES)
_MANY_DELTAS: Final = 2_000
_LINES: Final = "a line of the file that is read\n" * 40
TASKS: Final = (Task(), Task(n_reads=_FEW_READS), Task(n_reads=_MANY_READS), Task(n_deltas=_MANY_DELTAS))
"""An answer, few reads, many reads, an answer of many deltas."""

_ONCE: Final = (
    "first request ms",
    "an answer ms",
    "CPU ms",
    "a tool call CPU ms",
    "a delta CPU us",
    "peak MB",
)
_HOSTED: Final = (
    "start ms",
    "start CPU ms",
    "first turn ms",
    "next turn ms",
    "a tool call CPU ms",
    "a delta CPU us",
    "MB",
)


def say(text: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def install(program: Program) -> str | None:
    """Install *program* where it is missing; return why it cannot be, None when it is there."""
    if program.package is None or program.executable.exists():
        return None
    if shutil.which("npm") is None:
        return "npm is not installed"
    say(f"installing {program.package} ...")
    program.folder.mkdir(parents=True, exist_ok=True)
    options = ("--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error")
    command = ("npm", "install", "--prefix", str(program.folder), *options, program.package)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if program.executable.exists():
        return None
    shutil.rmtree(program.folder, ignore_errors=True)
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return f"npm cannot install it: {lines[-1] if lines else done.returncode}"


def version_of(program: Program) -> str:
    """Return the version that is installed; that of our own is the one at hand."""
    if program.package is None:
        return "of this tree"
    path = program.folder / "node_modules" / program.package / "package.json"
    return str(json.loads(path.read_text())["version"])


def steps(runs: Sequence[Run]) -> tuple[float, float]:
    """Return the CPU time of a tool call in ms and of a delta in us, from the runs of ``TASKS``."""
    answer, few, many, deltas = runs
    call_s = per_step(few, many, _MANY_READS - _FEW_READS)
    return 1e3 * call_s, 1e6 * per_step(answer, deltas, _MANY_DELTAS - TASKS[0].n_deltas)


def row_of_prompts(runs: Sequence[Run]) -> list[float]:
    """Return the row of an agent that was started for each of ``TASKS``."""
    answer = runs[0]
    times = (1e3 * each for each in (answer.first_call_s, answer.wall_s, answer.cpu_s))
    return [*times, *steps(runs), answer.memory_mb]


def row_of_turns(runs: Sequence[Run]) -> list[float]:
    """Return the row of an agent that stayed: its start, its first turn, turns for ``TASKS``."""
    start, first, *turns = runs
    times = (1e3 * each for each in (start.wall_s, start.cpu_s, first.wall_s, turns[0].wall_s))
    return [*times, *steps(turns), turns[-1].memory_mb]


def run_all(program: Program, place: Place, fake: FakeModels, tasks: Sequence[Task]) -> tuple[Run, ...]:
    """Return a run of *program* for each of *tasks*."""
    return tuple(run_once(program, place, fake, task) for task in tasks)


@dataclass(frozen=True, slots=True)
class Way:
    """One way to use an agent: the title of its table, its columns, how it is measured and shown."""

    title: str
    units: tuple[str, ...]
    measure: Callable[[Program, Place, FakeModels, Sequence[Task]], tuple[Run, ...]]
    tasks: tuple[Task, ...]
    row: Callable[[Sequence[Run]], list[float]]


WAYS: Final = (
    Way("started for one prompt", _ONCE, run_all, TASKS, row_of_prompts),
    Way("kept by an editor", _HOSTED, run_hosted, (TASKS[0], *TASKS), row_of_turns),
)


def compare(programs: Sequence[Program], root: Path, n_rounds: int) -> None:
    """Measure *programs* in turns below the folder *root*, and print the tables."""
    reasons = {each.label: why for each in programs if (why := install(each)) is not None}
    ready = [each for each in programs if each.label not in reasons]
    with FakeModels() as fake:
        places = {each.label: make_place(each, root / each.label, fake.url) for each in ready}
        for way in WAYS:
            best: dict[str, tuple[Run, ...]] = {}
            for n in range(n_rounds):
                say(f"{way.title}: round {n + 1} of {n_rounds}")
                for program in ready:
                    label = program.label
                    try:
                        runs = way.measure(program, places[label], fake, way.tasks)
                    except (AgentFailedError, OSError) as error:
                        reasons[f"{label}, {way.title}"] = str(error)
                        continue
                    pairs = zip(best.get(label, runs), runs, strict=True)
                    best[label] = tuple(known.least(new) for known, new in pairs)
            names = {each.label: f"{each.label} {version_of(each)}" for each in ready}
            rows = {names[label]: way.row(runs) for label, runs in best.items()}
            say(f"\n{format_table(way.title, way.units, rows)}\n")
    for label, why in reasons.items():
        say(f"{label}: not measured: {why}")


def make_place(program: Program, folder: Path, url: str) -> Place:
    """Make a home and a project for *program* in *folder*."""
    home, project = folder / "home", folder / "project"
    home.mkdir(parents=True)
    project.mkdir()
    for name in FILES:
        (project / name).write_text(_LINES)
    return Place(program.environment(home, url), project, folder / "log")


def main(arguments: Sequence[str]) -> None:
    """Compare all agents, or those named, in as many rounds as the first argument says."""
    n_rounds = int(arguments[0]) if arguments else ROUNDS
    named = [each for each in PEERS if not arguments[1:] or each.name in arguments[1:]]
    with tempfile.TemporaryDirectory(prefix="peers-", ignore_cleanup_errors=True) as root:
        compare((*OURS, *named), Path(root), n_rounds)


if __name__ == "__main__":
    main(sys.argv[1:])
