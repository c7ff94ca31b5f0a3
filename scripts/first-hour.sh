#!/usr/bin/env bash
# The first hour of somebody who has the programs and the documents: each command is the
# one that a document prints, and says what is wanted here. Only the ports are others, in
# case this machine uses those of the documents. Usage: first-hour.sh DIR, where swpd,
# swp-client and mcp-modern are.
set -euo pipefail

docs=$(cd "${BASH_SOURCE[0]%/*}/.." && pwd)
PATH=$(cd "$1" && pwd):$(getconf PATH)
work=$(mktemp -d)
out=$work/said
pids=()
cd "$work"

finish() {
	local status=$?
	trap - EXIT INT TERM
	kill "${pids[@]}" "$watchdog" 2>/dev/null || true
	wait "${pids[@]}" 2>/dev/null || true
	if ((status != 0)); then
		printf '\n%s: FAILED; what was said last, and the logs:\n' "$0" >&2
		tail -n 50 "$out" */*/log >&2 2>/dev/null || true
	fi
	rm -rf "$work"
	exit "$status"
}
# What is waited for in vain ends here.
{
	sleep "${PATIENCE:-300}" &
	trap 'kill $!' TERM
	wait $! && kill $$
} >/dev/null 2>&1 &
watchdog=$!
trap finish EXIT INT TERM

# free finds a port that nobody uses, nor the one that admin takes beside it. Systems hand
# out ports from 32768 on by themselves, so these stay free.
free() {
	local port
	while :; do
		port=$((12000 + RANDOM % 20000))
		if ! (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null && ! (: <"/dev/tcp/127.0.0.1/$((port + 3))") 2>/dev/null; then
			echo "$port"
			return
		fi
	done
}
first=$(free) second=$(free) third=$(free)

# block FILE TEXT prints the commands of a document: of the sh block that has TEXT.
block() {
	awk -v text="$2" '
		/^```/ { if (inside && index(body, text)) { printf "%s", body; found = 1; exit } inside = $0 == "```sh"; body = ""; next }
		inside { body = body $0 "\n" }
		END { exit !found }
	' "$docs/$1" | sed "s/7777/$first/g; s/7877/$second/g; s/7977/$third/g"
}

# step TITLE FILE TEXT runs the commands of a document as printed, one after the other.
step() {
	printf '\n== %s (%s)\n' "$1" "$2"
	block "$2" "$3" >"$work/commands" || { echo "first-hour: $2 has no commands with: $3" >&2; exit 1; }
	set -v
	# shellcheck source=/dev/null
	source "$work/commands" >"$out" 2>&1
	set +v
	local pid
	for pid in $(jobs -p); do
		[[ $pid == "$watchdog" || " ${pids[*]-} " == *" $pid "* ]] || pids+=("$pid")
	done
	cat "$out"
}

# want LINE... wants each line, an extended regular expression, in what was said, in this
# order.
want() {
	local line at=0 found
	for line in "$@"; do
		# grep ends early: as part of a pipe, tail could fail for that.
		found=$(grep -nEm 1 -e "$line" < <(tail -n +$((at + 1)) "$out") | cut -d: -f1) ||
			{ echo "first-hour: want a line like: $line" >&2; exit 1; }
		at=$((at + found))
	done
}

same() { cmp "$1" "$2" || { echo "first-hour: $1 and $2 differ" >&2; exit 1; }; }

# ends CODE COMMAND... wants an exit code.
ends() {
	local code=0
	printf '$ %s\n' "${*:2}"
	"${@:2}" >"$out" 2>&1 || code=$?
	cat "$out"
	((code == $1)) || { echo "first-hour: exit code $code, want $1" >&2; exit 1; }
}

mkdir one two
cd one
# The first commands name no port, so swpd is told by its environment.
export SWPD_LISTENERS_0_ADDRESS=swp+tls://127.0.0.1:$first SWPD_LISTENERS_1_ADDRESS=swp+quic://127.0.0.1:$first SWPD_ADMIN=127.0.0.1:$((first + 3))
step "an endpoint with an MCP server, and the first things done with it" README.md "swpd init --dir edge"
want '^made edge/swpd.yaml$' '^made edge/pki with the identity spiffe://localhost/swpd$' '^  swpd run --config edge/swpd.yaml$' \
	'^state +ready' '^identity +spiffe://localhost/swpd$' "^addresses +swp\\+tls://127.0.0.1:$first$" '^MCP server +calc$' \
	'"sum":42' '^calc/add' '^calc/echo' '^hello$|^\{"build": 42\}$'
same note.txt copy.txt

step "further identities" docs/operator-guide.md "swpd cert new --name spiffe://example.org/agents/planner"
want '^made planner/client.crt with the identity spiffe://example.org/agents/planner' \
	'^identity +spiffe://example.org/agents/planner$' '^key +planner/client.key is its own$' '^trust +planner/ca.crt vouches for it$' \
	'^identity +spiffe://example.org/agents/planner$' '^may +nothing but what is open to every peer' \
	'^made edge2/pki/server.crt with the identity spiffe://example.org/edge2' \
	'^renewed edge/pki/server.crt' '^renewed edge/pki/client.crt' '^file +.*edge/pki/server.crt$' '^authority +CN=swpd development authority$'
grep -q "^identity: spiffe://localhost/swpd$" edge.pem

echo
echo "== what goes wrong says so"
ends 1 swp-client --identity planner mcp call "$edge" add a=2 b=40
want 'access|allow|denied'
ends 2 swpd init --dir edge
want 'edge/swpd.yaml exists already'
unset SWPD_LISTENERS_0_ADDRESS SWPD_LISTENERS_1_ADDRESS SWPD_ADMIN SWP_IDENTITY
kill "${pids[@]}"
wait "${pids[@]}"
pids=()

cd ../two
step "two organisations, each with an authority of its own" docs/partners.md "swpd init --dir acme"
want '^made acme/swpd.yaml$' '^made beta/swpd.yaml$' '^partner acme is spiffe://acme.example/swpd; it may use the MCP server "shared" here$' \
	'^changed acme/swpd.yaml, which knows this endpoint as partner beta$' \
	'^identity +spiffe://acme.example/swpd$' '^partner +beta ' "spiffe://beta.example/swpd +swp\\+tls://127.0.0.1:$second .*; rules let it do something here$" \
	'^identity +spiffe://beta.example/swpd$' '^partner +acme ' "spiffe://acme.example/swpd +swp\\+tls://127.0.0.1:$first .*; rules let it do something here$"
if cmp -s acme/pki/ca.crt beta/pki/ca.crt; then
	echo "first-hour: both organisations have one authority" >&2
	exit 1
fi
step "a client of one uses a server of the other" docs/partners.md "swpd run --config beta/swpd.yaml"
want '^partner +acme: up' '"sum":42' '^file +shown by partner acme$' '^identity +spiffe://acme.example/swpd$'
sed -i.before 's/, profile: mcp, name: \[shared, "shared\/\*\*"\]//' acme/swpd.yaml
ends 0 swpd reload --config acme/swpd.yaml
want '^taken up: .*access'
step "states, artifacts and events at a partner" docs/partners.md "state put swp+tls://127.0.0.1:7877/acme"
want '^[0-9a-f]{64}$' '^notes.txt$' ' info +acme/orders.new .* \{"order": 1\}$'
same notes.txt copy.txt
id=$(grep -xE '[0-9a-f]{64}' "$out")
ends 0 swp-client --identity beta/pki state get "swp+tls://127.0.0.1:$second/acme" "$id"
want '^minutes of Monday$'
mv acme/swpd.yaml.before acme/swpd.yaml
ends 0 swpd reload --config acme/swpd.yaml

echo
echo "== what a partner refuses says that it was the partner"
ends 1 swp-client --identity beta/pki mcp call "swp+tls://127.0.0.1:$second/acme/other" add a=2 b=40
want 'refused by partner acme \(spiffe://acme.example/swpd\)'
ends 1 swp-client --identity beta/pki a2a send "swp+tls://127.0.0.1:$second/acme/helper" --kind report --input '{}'
want 'the task has failed: denied' 'refused by partner acme \(spiffe://acme.example/swpd\)'
ends 1 swp-client --identity beta/pki --json mcp call "swp+tls://127.0.0.1:$second/acme/other" add a=2 b=40
want '"kind":"refused",.*"code":"ERR_SECURITY_POLICY","endpoint":"spiffe://acme.example/swpd","partner":"acme"'
ends 1 swp-client --identity beta/pki mcp call "swp+tls://127.0.0.1:$second/acme/shared" nothing x=1
want 'the server has no tool "nothing" that this identity may use; it may use: .*add' 'swpd check --config FILE --as spiffe:..beta.example.swp-client --may mcp tools/call'
grep 'refused by partner.*"profile":"a2a"' beta/log >denial
ends 0 swpd explain --config beta/swpd.yaml <denial
want 'swpd check --config FILE --as spiffe://beta.example/swpd --for pseudonym:[^ ]+ --may a2a task helper/report'

step "what a partner on another machine needs to know" docs/partners.md "swpd cert bundle --config acme/swpd.yaml"
want '^file +acme.pem$' '^authority +CN=swpd development authority$' '^SHA-256 +[0-9a-f]{64}$' '^partner acme is spiffe://acme.example/swpd'
grep -q '^  swpd cert bundle --config gamma/swpd.yaml$' "$out" || { echo "first-hour: init does not say what the other operator has to be given" >&2; exit 1; }
ends 0 swpd check --config gamma/swpd.yaml
want '^partner +acme '

echo
echo "first-hour: everything said what it should"
