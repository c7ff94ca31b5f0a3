#!/usr/bin/env bash
# One program hands a task to another through swpd; the sender is killed in the
# middle, then swpd itself, and nothing is lost or done twice.
# Usage: agents.sh DIR, where make demo-agents has put the programs.
set -euo pipefail

source "${BASH_SOURCE%/*}/stage.sh"
export XDG_STATE_HOME=$dir/state SWP_IDENTITY=$dir/pki

client() {
	show "$bin/swp-client" "$@" >&2
	"$bin/swp-client" "$@"
}

# What the worker runs for each task: it reads the input, reports its progress,
# and gives the lines back in upper case. It leaves a mark each time it is run.
cat >"$dir/shout.sh" <<'SH'
#!/bin/sh
echo run >>"$MARKS"
n=0
while read -r line; do
	n=$((n + 1))
	echo "line $n: $(echo "$line" | tr '[:lower:]' '[:upper:]')"
	sleep "${PAUSE:-0.5}"
done
echo "{\"output\": {\"lines\": $n}}"
SH
chmod +x "$dir/shout.sh"
printf '%s\n' the quick brown fox jumps over the lazy dog >"$dir/words.txt"

say "swpd, and a worker that carries out tasks of the kind \"shout\" with a command"
"$bin/swpd" init --dir "$dir" >/dev/null
export SWPD_DATA=$dir/data
serve
address=$tls
export SWPD_LISTENERS_0_ADDRESS=$address # it comes back there
show "$bin/swp-client" a2a worker "$address" --agent shouter --kind shout -- "$dir/shout.sh"
MARKS=$dir/marks "$bin/swp-client" a2a worker "$address" --agent shouter --kind shout -- "$dir/shout.sh" 2>"$dir/worker.log" &
worker=$!
until_true grep -q "connected to" "$dir/worker.log"

# sent LINES sends a task and waits until so many lines of it were printed.
sent() {
	show "$bin/swp-client" a2a send "$address" --kind shout --input "@$dir/words.txt"
	"$bin/swp-client" a2a send "$address" --kind shout --input "@$dir/words.txt" >"$dir/printed" 2>"$dir/said" &
	sender=$!
	until_true sh -c "test \$(wc -l <$dir/printed) -ge $1"
	id=$(sed -n 's/^task //p' "$dir/said")
	# The journal has what was printed a moment later.
	until_true sh -c "grep -q '^0*$1 ' $dir/state/swp-client/tasks/$id.task || test \$(wc -l <$dir/printed) -gt $1"
}

# whole wants every line once, in order, and the output.
whole() {
	for n in 1 2 3 4 5 6 7 8 9; do echo "line $n:"; done >"$dir/want"
	echo '{"lines": 9}' >>"$dir/want"
	sed 's/^\(line [0-9]*:\).*/\1/' "$dir/printed" "$dir/rest" | diff "$dir/want" - || {
		echo "demo: the two parts are not the whole" >&2
		exit 1
	}
	[[ $(wc -l <"$dir/marks") == "$1" ]] || {
		echo "demo: the command was run $(wc -l <"$dir/marks") times, want $1" >&2
		exit 1
	}
}

say "a task, and the sender is killed in the middle"
sent 3
crash "$sender"
cat "$dir/printed"
echo "(kill -9 of the sender)"

say "resume prints exactly the rest"
client a2a resume "${id:0:8}" | tee "$dir/rest"
whole 1

say "another task, and swpd itself is killed with the sender"
sent 3
crash "$swpd" "$sender"
cat "$dir/printed"
echo "(kill -9 of swpd and of the sender)"
serve
echo "(swpd is back at $address)"
client a2a resume "${id:0:8}" | tee "$dir/rest"
whole 2

say "both tasks were carried out once, each line was printed once"
client a2a list
