"""The known commands: the words that name them, their operands, their flags, and their permission.

The problem: a program does many different things, and one flag turns a harmless one into another program.
``git log`` reads, ``git log --output=x`` writes, ``git -c alias.log='!sh' log`` runs anything; ``tar``,
``find``, ``sort``, ``rg`` and nearly all others have such flags, and many accept abbreviations of them.

The rule: an entry lists the flags that keep its meaning, and every other flag takes a command out of the
entry. So a flag that was forgotten here, or that a later version brings, costs a question and no more.

An entry is a line of fields, ``words | operands | flags | group``. *Words* name the command; ``a/b`` makes
two entries. ``<name>`` stands for one more word, and ``<names>`` for all further ones; they become a part of
the name, as in ``npm run build``. *Operands* are one of

- ``none``;
- ``any``: every further word is plain text, flags too;
- ``text``: plain text; ``pattern``: text first, then paths;
- ``paths``: files and folders, which must lie inside the session's folders; ``path``: at most one;
- ``refs``: names such as branches; ``remote``: the name of a remote, then branches;
- ``@name``: judged by the function of that name in ``commands``.

*Flags* are separated by blanks. ``-n`` has no value, ``-n=`` has one, ``-n=x`` may have the value ``x``
alone, ``--arg==`` has two, ``-#`` is a number such as ``-20``, and ``$name`` stands for a list in
``_FLAGS``. ``--`` lets the flags stand behind a ``--`` too, where a runner hands them on.

*Group* joins commands to which one answer applies. ``builds`` are the commands that run the code of the
project in any case, to test, check or build it; of scripts only those with such a name. They are one group
for all programs, because the project decides in any case which code runs. The other groups are each about one
program: ``reads`` look at a service with the user's account and change nothing
there; ``posts`` publish a text there. ``steps`` change the repository alone, and can be taken back.

Left out on purpose, so that they are covered word for word at most: shells, interpreters and wrappers
(``sh``, ``python``, ``env``, ``sudo``, ``xargs``, ``ssh``), everything that deletes, overwrites or moves
(``rm``, ``cp``, ``git reset``), writes elsewhere (``rsync``, ``scp``), or may run a program that its
arguments name (``git bisect``, ``docker``). Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Final, Literal, TypeAlias

from sidecar._internal.values import Value

EntryKind: TypeAlias = Literal["free", "edit", "ask"]
"""``free`` runs unasked, ``edit`` as changes of files do, ``ask`` after a question."""

TRANSPARENT: Final = {
    "time": {"-p": False},
    "timeout": {"-k": True, "-s": True, "--foreground": False},
    "nice": {"-n": True},
}
"""Programs that run the rest of their words, which is judged instead; True marks a flag with a value."""

PROXIES: Final = {"rtk": ("git", "gh", "cargo", "go", "npm", "pnpm", "bun")}
"""Programs that run these others to shorten their output, and are judged as the other."""

_STATE_NAMES: Final = (
    ". : alias bg bind break builtin caller command compgen complete continue coproc declare dirs disown"
    " enable eval exec export fc fg getopts hash history jobs let local logout mapfile popd pushd read"
    " readarray readonly return set shift shopt source suspend times trap typeset ulimit umask unalias"
    " unset wait"
)
SHELL_STATE: Final = frozenset(_STATE_NAMES.split())
"""Builtins that change how the shell reads the rest of a line, or run it; they are covered by nothing."""

PROGRAM_FOLDERS: Final = ("", "/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin")
"""Folders in which a program that is named by its path is the known one; the first stands for no path."""

GROUP_LABELS: Final = {
    "builds": "tests, checks and builds of the project",
    "reads": "reads by `{}`",
    "posts": "pull requests, issues and comments by `{}`",
    "steps": "`{0}` add, commit, stash, switch, fetch, pull, merge and rebase",
}

ROUTINE: Final = re.compile(
    r"(?:(?:css|docs|web)[:-])?(?:test|lint|check|type-?check|fmt|format|build|compile|coverage|clean)(?:[:._-][\w:.-]*)?",
    re.ASCII,
)
"""Names of scripts and targets that belong to the group ``builds``."""

HARMLESS_VARIABLES: Final = re.compile(
    r"(?:CI|NO_COLOR|FORCE_COLOR|CLICOLOR|RUST_BACKTRACE|RUST_LOG|GOOS|GOARCH|CGO_ENABLED|NODE_ENV|TZ"
    r"|PYTHONUNBUFFERED)=[\w.,:=-]*",
    re.ASCII,
)
"""Assignments before a command that change neither the program nor its files."""

_FLAGS: Final = {
    "$lines": "-c= -n= -q -v -# --lines= --bytes=",
    "$grep": (
        "-n -i -v -l -L -c -o -w -x -E -F -P -G -q -s -h -H -r -a -I -b -A= -B= -C= -m= -e= -# --include="
        " --exclude= --exclude-dir= --color --color= --line-number --ignore-case --count"
    ),
    "$rg": (
        "-n -i -S -s -v -l -c -o -w -x -F -P -U -u -H -I -N -q -A= -B= -C= -m= -g= -t= -T= -e= --glob="
        " --iglob= --type= --type-not= --files --hidden --no-ignore --json --stats --max-count= --context="
        " --after-context= --before-context= --sort= --no-heading --heading --line-number --ignore-case"
        " --smart-case --fixed-strings --multiline --word-regexp --files-with-matches --files-without-match"
        " --count --color= --vimgrep --max-depth= --no-messages --trim --only-matching --no-line-number"
    ),
    "$diff": (
        "--stat --name-only --name-status --cached --staged --check --numstat --shortstat --summary -U= -w -b"
        " -p -M -C -R -S= -G= --unified= --color --color= --no-color --word-diff --diff-filter="
        " --find-renames --no-renames --no-ext-diff --no-textconv --exit-code --quiet --patch --raw"
        " --merge-base --relative --ignore-all-space --ignore-space-change --minimal --histogram --patience"
    ),
    "$log": (
        "-# -n= --oneline --graph --all --decorate --decorate= --format= --pretty= --pretty --since= --until="
        " --after= --before= --author= --committer= --grep= --follow --reverse --first-parent --merges"
        " --no-merges --date= --abbrev-commit --no-patch -s -i -L= --max-count= --skip= --topo-order"
        " --left-right --cherry-pick --branches --tags --remotes --full-history --no-decorate --abbrev= -m"
    ),
    "$gh": (
        "--json= -q= --jq= --repo= -R= --limit= -L= --state= -s= --author= --label= --search= -S= --comments"
        " --branch= -b= --workflow= --status= --head= -H= --base= -B="
    ),
    "$post": (
        "--title= --body= -t= -b= --base= -B= --head= -H= --draft -d --repo= -R= --label= -l= --fill"
        " --body-file=- -F=-"
    ),
    "$cargo": (
        "-q -v --quiet --verbose --all --workspace --lib --bins --tests --examples --benches --bin= --test="
        " --example= --package= -p= --exclude= --release -r --features= --all-features --no-default-features"
        " --all-targets --locked --offline --frozen --no-run --no-fail-fast --doc -j= --jobs= --profile="
    ),
    "$go": (
        "-v -race -short -cover -json -failfast -run= -skip= -count= -tags= -timeout= -bench= -benchmem"
        " -parallel= -p="
    ),
    "$script": (
        "-s --silent --if-present -w= --workspace= --filter= -r --workspaces --bail -- --run --coverage"
        " --grep= -t= --testNamePattern= -v -run= --verbose --watch=false --no-watch"
    ),
    "$pytest": (
        "-q -v -x -s -l -k= -m= -n= -r= --tb= --lf --ff --sw --maxfail= --durations= --no-header --co"
        " --collect-only --last-failed --failed-first --exitfirst --verbose --quiet --capture="
    ),
    "$mypy": "--strict --no-incremental --pretty --show-error-codes --no-error-summary",
    "$eslint": "--quiet --max-warnings= --ext= --no-color --color",
}

_FREE: Final = """
cat | paths | -A -b -e -E -n -s -t -T -u -v
head/tail | paths | $lines
nl | paths | -b= -n= -w= -s= -v=
wc | paths | -l -w -c -m -L
ls | paths | -a -A -l -h -t -r -S -R -1 -F -d -i -s -p -n -g -o -G -c -u -x -C -m -k --color --color= \
--full-time
tree | paths | -a -d -f -L= -I= -P= --noreport --dirsfirst
file | paths | -b -i --mime-type --brief
stat | paths | -c= --format=
du | paths | -s -h -a -c -k -m -d= --max-depth=
realpath/tac/rev/md5sum/sha1sum/sha256sum | paths |
readlink | paths | -f
basename | text | -a -s=
dirname/printf/exit/sleep/seq | text |
grep/egrep/fgrep | pattern | $grep
rg | pattern | $rg
sed | @sed | -n -E -r -s -u -e= --quiet --silent --regexp-extended --expression=
awk | @awk | -F= -v=
find | @find |
jq | @jq | -r -c -e -s -S -n -j -a -M -C -R --arg== --argjson== --tab --raw-output \
--compact-output --slurp --sort-keys
sort | paths | -r -n -u -f -b -h -V -g -M -s -c -z -k= -t=
uniq | path | -c -d -u -i -f= -s= -w=
cut | paths | -d= -f= -c= -b= -s --output-delimiter=
tr | text | -d -s -c -C
comm | paths | -1 -2 -3
cmp | paths | -s -l
column | paths | -t -s=
cd | @cd |
pwd | none | -P -L
echo/true/false/: | any |
test/[ | @test |
which | text | -a
type | text | -a -t -p
command -v | text |
date | @date | -u -R -I
uname | none | -a -s -r -m -n -p -o
whoami/nproc/uuidgen/arch | none |
id | none | -u -g -n
ps | @ps | -A -a -e -f -x -w -o= -p= -u= --sort=
hostname | none | -s -f
set -e/-u/-x/-eu/-ex | none |
set -o pipefail | none |
set -eo pipefail | none |
set -euo pipefail | none |
git status | paths | -s -b -v -u -u= --short --branch --porcelain --porcelain= --long --ignored \
--untracked-files --untracked-files= --show-stash -z
git diff | paths | $diff -z
git log | paths | $log $diff
git show | paths | $log $diff
git blame | paths | -L= -w -s -e -l -C -M --date=
git shortlog | paths | -s -n -e --since= --until= --all
git branch | none | -a -r -v -vv --list --show-current --all --remotes --no-color --no-column --contains= \
--merged= --no-merged=
git branch --list | refs | -a -r -v --all --remotes
git rev-parse | paths | --short --short= --abbrev-ref --verify --show-toplevel --git-dir --git-common-dir \
--is-inside-work-tree --show-prefix --symbolic-full-name -q --quiet
git rev-list | paths | --count --all --max-count= -n= --left-right --no-merges --first-parent
git merge-base | refs | --is-ancestor --all --fork-point
git describe | refs | --tags --always --dirty --long --abbrev= --all
git ls-files | paths | -o -m -d -c -s -z --others --modified --deleted --cached --exclude-standard \
--error-unmatch --stage
git ls-tree | paths | -r -t -d -l -z --name-only --full-tree
git grep | pattern | -n -i -l -L -c -w -v -E -F -P -I -h -A= -B= -C= -e= --cached --untracked --name-only \
--count --line-number
git cat-file | refs | -p -t -s -e
git for-each-ref | refs | --format= --sort= --count= --contains=
git name-rev | refs | --name-only --tags
git diff-tree | paths | -r --name-only --name-status --no-commit-id -p --stat --root
git remote | none | -v
git remote get-url | refs | --all --push
git config --file .gitmodules --get/--get-all/--get-regexp | text |
git check-ignore | paths | -v -n -q --no-index
git show-ref | refs | --heads --tags --head -d --hash
git stash list | none | $log
git stash show | refs | -p --stat --name-only
git tag | none | -l --list --sort=
git reflog | none | $log
git reflog show | refs | $log
git worktree list | none | --porcelain
git --version | none |
"""

_EDITS: Final = """
mkdir | paths | -p -v
rmdir | paths | -v
touch | paths |
cp | @copy | -p -f -n -v
mv | @copy | -f -n -v
tee | paths | -a
sed -i | @sed | -n -E -r -s -u -e=
"""

_ASKS: Final = """
git add | paths | -A --all -u --update -v -n -N --intent-to-add --dry-run | steps
git commit | paths | -m= -a -q -v -s --message= --all --quiet --no-edit --allow-empty --signoff -F=- \
--file=- | steps
git stash | none | | steps
git stash push | none | -m= -u -q --include-untracked --keep-index | steps
git stash pop | none | -q --index | steps
git push | remote | -u --set-upstream -v -q --dry-run --tags --follow-tags --quiet --porcelain --progress
git push --force-with-lease | remote | -u -v -q --quiet
git pull | remote | --rebase --ff-only --no-rebase -q -v --tags --prune --quiet --autostash | steps
git fetch | remote | --all --tags --prune -p -q -v --depth= --quiet --unshallow | steps
git restore --staged | paths | -q | steps
git switch | refs | -c= --create= -q --detach | steps
git merge | refs | -m= --no-edit --ff-only --no-ff --squash --stat -q | steps
git rebase | refs | --onto= --continue --abort | steps
git submodule status | paths |
git config --get | text |
git config --list | none | --show-origin --local --global
gh pr view | refs | $gh | reads
gh pr list | none | $gh | reads
gh pr diff | refs | $gh --name-only --patch --color= | reads
gh pr checks | refs | $gh --watch --interval= --required | reads
gh pr status | none | $gh | reads
gh pr create | none | $post | posts
gh pr comment/edit | refs | $post | posts
gh issue view | refs | $gh | reads
gh issue list | none | $gh | reads
gh issue create | none | $post | posts
gh issue/discussion comment | refs | $post | posts
gh run view | refs | $gh --log --log-failed --job= -j= --exit-status --verbose | reads
gh run list | none | $gh | reads
gh run watch | refs | $gh --exit-status --interval= | reads
gh repo view | refs | $gh | reads
gh release view | refs | $gh | reads
gh release list | none | $gh | reads
gh auth status | none | | reads
gh api | @gh_api | --paginate -q= --jq= -H= --header= --slurp -X=GET --method=GET -f= -F= --field= \
--raw-field= | reads
cargo test | refs | $cargo -- --nocapture --no-capture --exact --test-threads= --ignored --show-output \
| builds
cargo nextest run | refs | $cargo | builds
cargo check/build | none | $cargo | builds
cargo clippy | none | $cargo -- -D= -W= -A= | builds
cargo fmt | none | --all --check -q -p= -- | builds
cargo doc | none | $cargo --no-deps | builds
cargo tree | none | $cargo -i= --invert= -d --duplicates --depth= -e= --edges= | builds
go test | paths | $go | builds
go build | paths | -v -race -tags= | builds
go vet | paths | -tags= | builds
go fmt | paths | | builds
go list | paths | -m -json | builds
go mod tidy | none | -v | builds
gofmt | paths | -l -d -s -w | builds
golangci-lint run | paths | --fast --timeout= | builds
make <names> | none | -j= -j -s -k -B | builds
just/task <name> | none | | builds
mise/npm/pnpm/yarn/bun run <name> | paths | $script | builds
npm test | paths | $script | builds
npm/pnpm/yarn/bun install | none | --frozen-lockfile | builds
npm ci | none | | builds
bun test | paths | -t= --bail --timeout= --only | builds
tsc | paths | --noEmit --skipLibCheck --pretty | builds
eslint | paths | $eslint | builds
prettier | paths | --check -c -l --list-different | builds
vitest run | paths | $script | builds
jest | paths | $script | builds
biome check/lint | paths | | builds
pytest | paths | $pytest | builds
mypy | paths | $mypy | builds
pyright | paths | | builds
ruff check | paths | -q --select= --ignore= --diff --no-fix --statistics --output-format= | builds
ruff format | paths | -q --check --diff | builds
black/isort | paths | --check --diff -q | builds
diff | paths | -u -q -w -b -B -i -y -U= --color --color= --brief --unified
curl | @curl | -s -S -f -L -I -i -v -m= --max-time= --silent --show-error --fail --location --head -A=
tar | @tar |
"""

_SCRIPT_NAMES: Final = "test/lint/build/check/typecheck/type-check/check-types/compile/format"
"""Names by which package managers run scripts of a project without the word "run"."""


class KnownCommand(Value, kw_only=True):
    """One known command; see the head of this module.

    Attributes:
        words: the words that name it.
        takes_names: ``<name>`` or ``<names>`` where further words belong to the name, else nothing.
        operands: the kind of its operands.
        group: the name of the group that an answer "always" covers with it, or nothing.
        flags: flags without a value.
        values: flags with a value: how many values, and the only one that is allowed, or nothing for any.
        is_clustered: whether letters stand together, as in ``-la``.
    """

    kind: EntryKind
    words: tuple[str, ...]
    takes_names: str
    operands: str
    group: str
    flags: frozenset[str]
    values: dict[str, tuple[int, str]]
    is_clustered: bool


@cache
def entries() -> dict[tuple[str, ...], KnownCommand]:
    """Return all entries by their words; read when a command is judged for the first time."""
    asks = _ASKS.split("\n")
    modules = [line for line in asks if line.startswith(("pytest ", "mypy ", "ruff ", "black/"))]
    local = [line for line in asks if line.startswith(("tsc ", "eslint ", "vitest ", "biome ", "jest "))]
    asks += [f"npx {line.rpartition('|')[0]}" for line in local]  # may fetch the program first
    asks += [f"{runner} {line}" for runner in ("python -m", "python3 -m", "uv run") for line in modules]
    asks += [f"pnpm/yarn {_SCRIPT_NAMES} | paths | $script | builds"]
    kinds: tuple[tuple[EntryKind, list[str]], ...] = (
        ("free", _FREE.split("\n")),
        ("edit", _EDITS.split("\n")),
        ("ask", asks),
    )
    found = [parse_line(kind, line) for kind, lines in kinds for line in lines if line]
    return {entry.words: entry for line in found for entry in line}


def find_entry(words: tuple[str, ...]) -> KnownCommand | None:
    """Return the entry with the most of *words*, None for a command that is not known.

    >>> find_entry(("git", "stash", "list", "-3")).words, find_entry(("git", "clean"))
    (('git', 'stash', 'list'), None)
    """
    known = entries()
    return next((known[words[:n]] for n in range(min(5, len(words)), 0, -1) if words[:n] in known), None)


def knows_program(name: str) -> bool:
    """Whether any entry is about the program *name*."""
    return any(words[0] == name for words in entries())


def parse_line(kind: EntryKind, line: str) -> Iterator[KnownCommand]:
    names, operands, listed, group = (*(part.strip() for part in line.split("|")), "")[:4]
    flags: set[str] = set()
    values: dict[str, tuple[int, str]] = {}
    for flag in " ".join(_FLAGS.get(flag, flag) for flag in listed.split()).split():
        name, has_value, only = flag.partition("=")
        if has_value:
            values[name] = (2, "") if only == "=" else (1, only)
        else:
            flags.add(name)
    named = [word.split("/") for word in names.split() if not word.startswith("<")]
    for words in product(*named):
        yield KnownCommand(
            kind=kind,
            words=words,
            takes_names=names.split()[-1] if names.endswith(">") else "",
            operands=operands,
            group=group,
            flags=frozenset(flags),
            values=values,
            is_clustered=not any(len(flag) > 2 and flag[0] == "-" != flag[1] for flag in (*flags, *values)),
        )
