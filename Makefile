# Every target makes its own virtual environment first, so that each works on a fresh clone.
PYTHON ?= python3
VENV ?= .venv
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif
READY := $(VENV)/.ready

.PHONY: demo test test-postgres slow same same-record quick editors test-typescript reference lint bench bench-peers fidelity fuzz crash pictures format clean

demo: $(READY)
	$(BIN)/sidecar demo

# The test modules as pytest has rewritten them are kept, also where the environment asks for no bytecode.
test slow quick: export PYTHONDONTWRITEBYTECODE =
test: $(READY)
	$(BIN)/python -m pytest -q -n auto --dist worksteal -m "not slow and not postgres"

# Sessions in PostgreSQL: starts servers of its own, with the programs of an installed one (Debian: postgresql).
test-postgres: $(READY)
	$(BIN)/python -m pytest -q -m postgres tests/runtime/store/postgres tests/e2e/test_kill.py tests/benchmarks/test_database.py

# The rest of the suite: whole terminals and scripts, floods, faults, unasked files, recordings; three minutes.
slow: $(READY)
	$(BIN)/python -m pytest -q -n auto --dist worksteal -m slow

# The suite without the tests that start processes or servers, and with a tenth of the cases of each property; in
# little more than a minute on two cores.
quick: $(READY)
	$(BIN)/python -m pytest -q -n auto --dist worksteal --hypothesis-profile=quick \
		-m "not e2e and not processes and not slow and not postgres"

# What the daemon does, against the record of it: every message of a day on both faces, the files that it stores,
# sessions of earlier versions, and what each engine writes. Prints what differs.
same: $(READY)
	PYTHONPATH=tests/support $(BIN)/python -m tests.same.compare

# Stores the record again; right only in a commit whose message names the change that a user or a client notices.
same-record: $(READY)
	PYTHONPATH=tests/support $(BIN)/python -m tests.same.compare --record

# Real editors, installed into .editors where they are missing and that can be; see tests/editors. What was seen
# on their screens is left in .editors/screens. Four minutes; the first time four more.
editors: export SIDECAR_SCREENS ?= $(CURDIR)/.editors/screens
editors: $(READY)
	$(BIN)/python -m tests.editors.install
	$(BIN)/python -m tests.editors.install_browser
	$(BIN)/python -m pytest -q -rs tests/editors

# Apart from the suite, which fetches nothing from npm.
test-typescript: $(READY)
	npm install --prefix clients/typescript --no-package-lock --no-audit --no-fund
	npm install --prefix editors/vscode --no-package-lock --no-audit --no-fund
	$(BIN)/python -m pytest -q tests/clients/test_typescript.py tests/e2e/test_editors_folder.py

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32 sidecar clients/python/sidecar_client
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin sidecar clients/python/sidecar_client

# Plays a session again, then writes REFERENCE.md and the types of the TypeScript client; and SETTINGS.md.
reference: $(READY)
	PYTHONPATH=tests/support $(BIN)/python tests/tools/reference_page.py
	$(BIN)/python tests/tools/settings_page.py

# Names each benchmark before it runs; one that takes longer than twenty minutes fails. Ten minutes in all.
bench: $(READY)
	$(BIN)/python -m pytest -v tests/benchmarks -o addopts="" --import-mode=importlib --benchmark-disable-gc -s

# The same tasks with pi, codex, gemini-cli and opencode on one fake model, in one table. They are installed from npm
# into .peers where they are missing, and reach nobody but the fake. Ten minutes.
bench-peers: $(READY)
	PYTHONPATH=tests/support:tests/tools $(BIN)/python -m peers.bench

# What a compaction keeps: use of sessions, planted facts, rounds and engines; in a minute. FIDELITY_DATA names a folder
# of recordings by agent, on which use is measured then.
fidelity: $(READY)
	PYTHONPATH=tests/support $(BIN)/python tests/support/fidelity.py

# The suite does the same with a few thousand; FUZZ_SEED=2 throws others.
fuzz: export FUZZ_FRAMES = 100000
fuzz: $(READY)
	$(BIN)/python -m pytest -q tests/fuzz --durations=2

# Cuts a session file at up to CRASH_POINTS of its bytes and kills a daemon at work for each hundred of them, and
# kills parents that just started a daemon. The suite does the same with a few.
crash: export CRASH_POINTS ?= 10000
crash: export KILLED_PARENTS ?= 1000
crash: $(READY)
	$(BIN)/python -m pytest -q tests/conductor/test_crash_points.py tests/e2e/test_kill.py \
		tests/e2e/test_killed_parents.py --durations=6

# Hours of editor use with accidents in ten minutes, and a million broken frames a face, of the seeds 1 to 20.
soak: export SOAK_SECONDS ?= 600
soak: export FUZZ_FRAMES ?= 1000000
soak: export FUZZ_SEED ?= 1-20
soak: $(READY)
	$(BIN)/python -m pytest -q -s tests/soak
	$(BIN)/python -m pytest -q tests/fuzz/test_frames.py --durations=2

# The pictures of the README: screens of real runs, with a model that plays a part.
pictures: $(READY)
	PYTHONPATH=tests/support $(BIN)/python tests/tools/pictures.py

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	$(PYTHON) -c "import shutil; shutil.rmtree('$(VENV)', ignore_errors=True)"

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[test,lint]"
	$(BIN)/python -m compileall -q sidecar clients/python
	$(BIN)/python -c "open('$(READY)', 'w').close()"
