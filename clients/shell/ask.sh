#!/bin/sh
# The wire by hand: one question to the daemon with nothing but printf. Usage: sh ask.sh "QUESTION"
set -eu
[ $# -eq 1 ] || { echo "usage: sh ask.sh QUESTION" >&2; exit 2; }

# The daemon of a checkout's own environment, where no other is on the path.
own=$(dirname "$0")/../../.venv/bin/sidecar
: "${SIDECAR:=$(command -v sidecar || echo "$own") serve --stdio}"
command -v "${SIDECAR%% *}" >/dev/null || {
    echo "there is no ${SIDECAR%% *}; install it as README says, or name another command in SIDECAR" >&2
    exit 1
}

out=$(mktemp)
trap 'rm -f "$out"' EXIT
exec 3>&1 # the daemon gets the standard output of what follows, the terminal gets this one

# A message is JSON after a header that counts its bytes.
say() { printf 'Content-Length: %d\r\n\r\n%s' "$(printf %s "$1" | wc -c)" "$1"; }

# A text inside of JSON.
quoted() { printf %s "$1" | tr '\n\t' '  ' | sed 's/[\\"]/\\&/g'; }

# Wait until the daemon has written what the sed script $1 prints, at most a minute, and print it.
hear() {
    second=0
    while [ $((second += 1)) -le 60 ]; do
        found=$(tr '\r' '\n' <"$out" | sed -n "$1")
        if [ -n "$found" ]; then printf '%s\n' "$found" && return; fi
        sleep 1
    done
    echo "no answer in a minute" >&2 && exit 1
}

{
    say '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"processId":null,"capabilities":{}}}'
    say '{"jsonrpc":"2.0","method":"initialized","params":{}}'
    say '{"jsonrpc":"2.0","id":2,"method":"sidecar/session/new","params":{"cwd":"'"$(quoted "$PWD")"'"}}'
    sid=$(hear 's/.*"id":2,.*"sid":"\([^"]*\)".*/\1/p')
    say '{"jsonrpc":"2.0","id":3,"method":"sidecar/turn/run","params":{"sid":"'"$sid"'","input":[{"type":"text","text":"'"$(quoted "$1")"'"}]}}'
    hear '/"id":3,/p' >&3
    say '{"jsonrpc":"2.0","id":4,"method":"shutdown"}'
    say '{"jsonrpc":"2.0","method":"exit"}'
} | $SIDECAR >"$out"
