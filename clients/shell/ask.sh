#!/bin/sh
# The wire by hand: one question to the daemon with nothing but printf. Usage: sh ask.sh "QUESTION"
set -eu
out=$(mktemp)
trap 'rm -f "$out"' EXIT

# A message is JSON after a header that counts its bytes.
say() { printf 'Content-Length: %d\r\n\r\n%s' "$(printf %s "$1" | wc -c)" "$1"; }

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
    say '{"jsonrpc":"2.0","id":2,"method":"sidecar/session/new","params":{"cwd":"'"$PWD"'"}}'
    sid=$(hear 's/.*"id":2,.*"sid":"\([^"]*\)".*/\1/p')
    say '{"jsonrpc":"2.0","id":3,"method":"sidecar/turn/run","params":{"sid":"'"$sid"'","input":[{"type":"text","text":"'"$1"'"}]}}'
    hear '/"id":3,/p' >&2
    say '{"jsonrpc":"2.0","id":4,"method":"shutdown"}'
    say '{"jsonrpc":"2.0","method":"exit"}'
} | ${SIDECAR:-sidecar serve --stdio} >"$out"
