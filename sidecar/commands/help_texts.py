"""The help of every command that follows its arguments: examples, further explanations, and exit codes."""

from __future__ import annotations

from typing import Final

MAIN: Final = """\
start here:
  sidecar demo                     a demonstration on the current folder
  sidecar                          a conversation in the terminal
  sidecar login                    a model of a provider, by its key
  sidecar panel                    a conversation in the browser
  sidecar run "where is X parsed"  one question, the answer on stdout
  sidecar doctor                   a report about this machine

an editor starts one of these:
  sidecar                          in a pipe: the daemon on stdin and stdout
  sidecar acp                      the same for agent panels
  sidecar serve --shared           one daemon for all editors of this user

Without a chosen model it uses the best one that is there: of a provider whose
key is set, or of a model server on this machine. Without either it uses
offline-1, a built-in model that finds and cites, and does not reason.

environment:
  INDUSAGI_HOME   the folder of sessions, settings and logs (~/.pindusagi)
  NO_COLOR        any value turns colours off

exit codes: 0 done, 1 failed, 2 the command line or a file is wrong,
130 interrupted with Ctrl-C.
"sidecar COMMAND --help" explains each command."""

SERVE: Final = """\
examples:
  sidecar                                  as an editor starts it
  sidecar serve --shared                   one daemon for several windows
  sidecar serve --log debug 2>sidecar.log  write a detailed log
  sidecar serve --shared --daemon --listen 127.0.0.1:0
                                           a loopback port too, with a token

It ends with its client: end of input, SIGTERM, or the end of the process that
started it. Nothing but the protocol is written to stdout. The log goes to
stderr, or for a shared daemon to run/daemon.log in the state directory, where
run/tcp.json has the port and the token (INDUSAGI_HOME, else ~/.pindusagi).

exit codes: 0 the client has requested the end, or SIGTERM; 1 any other end;
2 wrong arguments."""

SHIM: Final = """\
examples:
  ssh box sidecar shim              as the command of a client: a daemon on box
  ssh box sidecar shim --join 4711  the daemon that has a session open there

SSH is the way to work on sessions of another machine. Folders and files are those
of that machine, and so are its models, keys and permissions. The daemon and its
turns go on when the connection ends; a client that comes again gets the events
that it has missed. SSH keys belong to you; the shim asks for nothing more.

exit codes: as the daemon says; 1 it could not be reached, or has ended."""

ACP: Final = """\
An agent panel starts it, with the command "sidecar" and the argument "acp" in
its settings; editors/zed and editors/jetbrains have examples. By hand:
  hello='{"jsonrpc":"2.0","id":0,"method":"initialize",'
  echo "$hello"'"params":{"protocolVersion":1}}' | sidecar acp

exit codes: 0 the panel has closed its end, or SIGTERM; 1 any other end."""

DEMO: Final = """\
examples:
  sidecar demo               on the current folder
  sidecar demo ~/my-project  on another folder

It starts a daemon with a state directory of its own, which it removes. It needs
three text files of 400 to 9,000 bytes. It adds a line to one of them for a
moment; afterwards its bytes and times are as before, also after Ctrl-C.

exit codes: 0 all checks were true, 1 a check was not, 2 the folder is not
suitable, 130 interrupted."""

CHAT: Final = """\
examples:
  sidecar chat                      a new conversation about this folder
  sidecar chat --resume             continue the newest one of this folder
  sidecar chat --resume 5c98f       continue any of "sidecar sessions"
  sidecar chat --model ollama:qwen3

Enter sends; Alt-Enter, or Enter after a \\, begins a new line. Esc stops the
answer. What is sent meanwhile waits; Ctrl-S, or Ctrl-Enter where the terminal
reports it, sends it into the answer that runs. @path names a file, / the
commands, Ctrl-O shows what is folded, Up the prompts before. Ctrl-D leaves.
An image comes with a prompt when its file is dropped or pasted, or with Ctrl-V.
Edits, shell commands and files outside of the folder need your permission.
A question of the agent is answered by a key, or by a and then field by field.

It joins the shared daemon when one is running, and with --resume the daemon of
an editor that has the session open. In a pipe and on a dumb terminal it works
line by line; with --plain or INDUSAGI_PLAIN=1 without colours and drawings too,
for screen readers.

exit codes: 0 ended, 1 the daemon failed, 2 wrong arguments or no such session,
130 ended with Ctrl-C."""

PANEL: Final = """\
examples:
  sidecar panel              choose a conversation of this folder, or begin one
  sidecar panel last         the newest conversation of this folder
  sidecar panel --no-open    print the address, for a browser of your choice

It joins the shared daemon, and starts it when it is not running; a conversation
that another process has open is joined there. It listens on 127.0.0.1 alone.
The address holds a token, without which nothing is answered; give it to no one.
It ends a minute after its last page is closed.

exit codes: 0 the page was closed, 1 it could not listen, 2 wrong arguments or
no such folder, 130 ended with Ctrl-C."""

RUN: Final = """\
examples:
  sidecar run "what is in README.md?"
  git diff | sidecar run "what does this change?" -
  sidecar run < task.md
  sidecar run --allow 'make *' --allow 'edit: src/**' "make the tests pass"
  sidecar run --budget 0.50usd "find out why the tests are slow"
  sidecar run --json "where is main defined?" | jq -r .text
  sidecar run --stream-json "where is main defined?" | jq .kind
  sidecar run --output-schema '{"type": "integer"}' "how many files are here?"
  sidecar run --resume last "and where is it called?"

stdout gets the answer alone; what the model says and does on its way goes to
stderr. The conversation is stored; --resume continues it, as "sidecar chat
--resume" does. Ctrl-C stops the turn, a second one leaves at once.

--json prints one object: kind ("result"), sid, turnId, exitCode, stopReason,
text, output (the value, with --output-schema), problems, error, usage and
durationMs. --stream-json prints a line for each event before it; each kind is
described under "Events" by "sidecar schema --format markdown". An answer that
does not match the schema is asked for once more. --allow takes the rules that
"sidecar permissions --help" shows. Without a terminal a question of the agent
is declined; it goes on with what it thinks best.

exit codes: 0 answered, 1 the turn failed, 2 wrong arguments, an empty prompt,
no such command or session, or no model with --require-model, 3 the answer does
not match the schema, 4 the model needed more calls than --max-turns or more
than the --budget, 130 stopped with Ctrl-C."""

COMPACT: Final = """\
examples:
  sidecar compact --preview talk.json        the effect; writes nothing
  sidecar compact talk.json >shorter.jsonl   condense it
  sidecar compact --window 8000 talk.json    to fit a small window
  sidecar compact --engine agentcore --preview talk.json

exit codes: 0 condensed, 1 the output could not be written, 2 the file could not
be read, 3 nothing to do."""

SESSIONS: Final = """\
examples:
  sidecar sessions                 all of them
  sidecar sessions parser          those with "parser" in the title
  sidecar sessions --cwd .         those of this folder
  sidecar sessions --json | jq -r .sid
  sidecar sessions --search "yield from"  those in which it was said
  sidecar sessions --rename 5c98f "the parser"
  sidecar sessions --delete 5c98f  ask, then remove it for good
  sidecar sessions --watch         who works, who waits for you; Enter opens one
  sidecar sessions push box        the session used last goes on on box
  sidecar sessions pull box 5c98f  and comes back from there
  sidecar sessions copy --to postgresql://ann@db.example/sidecar

A session is named by the start of its id, or by "last" for the folder's newest.
Each session is a file in sessions/ of the state directory (INDUSAGI_HOME, else
~/.pindusagi), or in the database that "store" in config.toml names. In a
pipe each line has session, last used, messages, tokens, title and folder, with
tabs between them; of a search session, title, folder and a line.

The board of --watch has the sessions of all daemons that run, the waiting ones
first. In a pipe each change is a line: session, state, decision that it waits
for, title, folder and question; with --json the line of the list.

push and pull use your own SSH and the sidecar of that machine. Conversation,
rules, checkpoints and sub-agents go along; both sides keep the session, and the
older side is brought up to date, whole or not at all. Where both have gone on,
nothing is changed. A connection that broke off goes on where it ended. Where
the folder of the session is not there, it goes on in the current one.

exit codes: 0 done, also when there are none to list; 1 the daemon failed, or
nothing was deleted, found or moved; 2 there is no such folder or session."""

DATABASE: Final = """\
examples:
  sidecar database init postgresql://postgres@db/sidecar --role ann
  sidecar database init postgresql://postgres@db/sidecar   after an update

The tables belong to the role sidecar_owner, which cannot log in and is made
where it is missing. The role of the address is a superuser, or may create roles
and schemas, or is a member of sidecar_owner; no daemon connects with it. Tables
that an earlier version made with the role of a daemon are made again with their
rows; end the daemons first. Sound tables stay as they are.

exit codes: 0 done, 1 the database refused, and nothing was changed."""

IMPORT: Final = """\
examples:
  sidecar import                      what is there, the newest first
  sidecar import 0199c1c2             import one of them
  sidecar import ~/talk.jsonl         import a file
  sidecar import --format codex       only sessions of Codex
  sid=$(sidecar import talk.jsonl)    in a pipe: the id of the new session

It reads sessions of claude-code, codex, pi, opencode, copilot-cli, gemini-cli,
cline and aider, runs of openhands, and chat messages with roles (chat). Their
files stay as they are. Each repair and each omission is reported. Without --cwd
the session goes on in its recorded folder or, where that is gone, in the
current one.

exit codes: 0 imported or listed, 1 it could not be imported, 2 wrong arguments."""

EXPORT: Final = """\
examples:
  sidecar export last                               the newest here, as Markdown
  sidecar export 5c98f --format json --out talk.json
  sidecar export 5c98f --format claude-code --all   for Claude Code

Claude Code finds the file as ~/.claude/projects/FOLDER/ID.jsonl, Codex below
~/.codex/sessions. An existing file is never overwritten.

exit codes: 0 written, 1 it could not be written, 2 no such session."""

PERMISSIONS: Final = """\
examples:
  sidecar permissions                       the rules
  sidecar permissions test 'git push'       what decides about a command
  sidecar permissions test 'edit: .envrc'   and about a change of a file

The rules are in config.toml of the state directory:
  [permissions]
  allow = ["npm run *", "edit: docs/**", "mcp: git log"]
  deny = ["git push"]

exit codes: 0 shown, 2 wrong arguments or a mistake in config.toml."""

DOCTOR: Final = """\
examples:
  sidecar doctor          settings, keys, local servers; calls no model
  sidecar doctor --live   also asks each model, for a fraction of a cent each
  sidecar doctor --fix    offers to install what is missing, or to log in

exit codes: 0 all is well, 1 something is not; the red lines say how to fix it."""

LOGIN: Final = """\
examples:
  sidecar login                      choose a provider, paste its key
  sidecar login openrouter           sign in with the browser
  cat key.txt | sidecar login openai
  sidecar login openai --remove

The key goes into the keyring of this system, with the extra [keyring]; else
into auth.json of the state directory, which only you can read. A variable such
as OPENAI_API_KEY counts before both.

exit codes: 0 a model has answered, 1 none has, or the extra is missing, 2 no
such provider, or a key that none can be."""

SCHEMA: Final = """\
examples:
  sidecar schema --format markdown | less     the reference, to read
  sidecar schema --out protocol               all three forms as files
  sidecar schema --format ts > protocol.ts

exit codes: 0 written, 1 the files could not be written, 2 wrong arguments."""
