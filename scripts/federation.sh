#!/usr/bin/env bash
# Two organisations with an authority each: a client of beta uses at acme, through both
# endpoints, what each profile has; acme is killed and started again in the middle. Then a
# third party judges what both have recorded.
# Usage: federation.sh DIR, where make demo-federation has put the programs.
set -euo pipefail

source "${BASH_SOURCE%/*}/stage.sh"
unset SWPD_CONFIG SWPD_LISTENERS_0_ADDRESS SWPD_LISTENERS_1_ADDRESS
export SWP_IDENTITY=$dir/beta/pki XDG_STATE_HOME=$dir/state
cd "$dir"

# free finds a port that nobody uses, below those that systems hand out.
free() {
	local port
	while :; do
		port=$((12000 + RANDOM % 20000))
		if ! (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
			echo "$port"
			return
		fi
	done
}
acme=127.0.0.1:$(free) beta=127.0.0.1:$(free)
here=swp+tls://$beta over_quic=swp+quic://$beta

client() {
	show "$bin/swp-client" "$@" >&2
	"$bin/swp-client" "$@"
}
# says PATTERN COMMAND runs a command of the client and wants a line of what it prints.
says() {
	local want=$1
	shift
	client "$@" >said 2>&1 || { cat said; echo "demo: it failed" >&2; exit 1; }
	cat said
	grep -q -- "$want" said || { echo "demo: want $want" >&2; exit 1; }
}
# refused PATTERN ORG COMMAND wants a command of the client to be refused by an organisation.
refused() {
	local want=$1 by=$2
	shift 2
	! client "$@" >said 2>&1 || { cat said; echo "demo: it was done" >&2; exit 1; }
	cat said
	grep -q -- "$want" said && grep -q "spiffe://$by.example/swpd" said
}
# runs ORG starts the endpoint of an organisation.
runs() {
	rm -f "$1/addresses"
	"$bin/swpd" run --config "$1/swpd.yaml" --addr-file "$1/addresses" 2>>"$1.log" &
	until_true test -s "$1/addresses"
}
connected() { [[ $(grep -c '"partner connected"' beta.log) -ge $1 ]]; }
tools_listed() { "$bin/swp-client" tools ls "$here" | grep acme/ >/dev/null; }
held() { "$bin/swp-client" artifact ls "$here/acme" >/dev/null && [[ $(du -s acme/data | cut -f1) -gt 30000 ]]; }
proved() { "$bin/swpd" audit prove "${sent%% *}" --config beta/swpd.yaml --to exchange.json >proved 2>&1; }
stops() { kill -TERM "$1" && wait "$1"; }
processed() { "$bin/swp-client" relay status "$here" 0a | grep acked >/dev/null; }

say "two organisations, each with its own authority; acme lets beta use what is named here"
"$bin/swpd" init --dir acme --name spiffe://acme.example/swpd --listen "$acme" >/dev/null
"$bin/swpd" init --dir beta --name spiffe://beta.example/swpd --listen "$beta" --partner acme >/dev/null
cat >rules <<'YAML'
    - {identity: "spiffe://beta.example/swpd", profile: [rpc, state, artifact, policyhint]}
    - {identity: "spiffe://beta.example/swpd", profile: mcp, name: [shared, "shared/*"]}
    - {identity: "spiffe://beta.example/swpd", profile: a2a, operation: task, name: report}
    - {identity: "spiffe://beta.example/swpd", profile: events, name: "orders.*"}
    - {identity: "spiffe://beta.example/swpd", profile: relay, name: jobs}
YAML
sed -i '/^  rules:/r rules' acme/swpd.yaml
# beta tells acme who calls, and acme denies one of them.
sed -i '/^  acme:/a\    tell: caller' beta/swpd.yaml
sed -i '/^access:/a\  deny: [{identity: "**", for: "spiffe://beta.example/agents/bob"}]' acme/swpd.yaml
for caller in ann bob; do
	"$bin/swpd" cert new --name "spiffe://beta.example/agents/$caller" --pki beta/pki >/dev/null
done
# Both say what holds at acme, and sign receipts of what crosses.
sed -i '/^  acme:/a\    hints: {region: eu-west-1, pii: false}' beta/swpd.yaml
echo 'audit: {receipts: true}' | tee -a acme/swpd.yaml >>beta/swpd.yaml
cat >>acme/swpd.yaml <<YAML
mcp:
  servers:
    shared:
      command: $bin/mcp-modern
      hints: {region: eu-west-1, pii: true}
a2a:
  workers:
    reports: {kinds: [report], command: cat}
YAML
cat rules
runs acme
worker=$!
runs beta
swpd=$!
until_true connected 1

say "MCP, RPC, A2A: a server, a method, a worker of acme"
says '"sum":42' mcp call "$here/acme/shared" add a=2 b=40
says 'round trips' ping -c 2 "$here/acme"
says 'quarterly' a2a send "$here/acme" --kind report --input quarterly
until_true tools_listed

say "callers: acme knows ann and bob apart, and denies bob"
says '"sum":42' --identity ann mcp call "$here/acme/shared" add a=2 b=40
! client --identity bob mcp call "$here/acme/shared" add a=2 b=40 2>&1 | tee said
grep -q 'spiffe://acme.example/swpd' said
show "$bin/swpd" audit find --config acme/swpd.yaml --for 'spiffe://beta.example/agents/*'
"$bin/swpd" audit find --config acme/swpd.yaml --for 'spiffe://beta.example/agents/*' | tee said
grep -q 'for spiffe://beta.example/agents/ann  mcp tools/call  shared/add  ok' said
grep -q 'for spiffe://beta.example/agents/bob .* denied  access.deny' said
show "$bin/swpd" check --config acme/swpd.yaml --as spiffe://beta.example/swpd --for spiffe://beta.example/agents/bob --may mcp tools/call shared/add
! "$bin/swpd" check --config acme/swpd.yaml --as spiffe://beta.example/swpd --for spiffe://beta.example/agents/bob --may mcp tools/call shared/add

say "policy hints: one is kept, one is broken at beta, one at acme, which knows more of its server"
says '"sum":42' mcp call "$here/acme/shared" add a=2 b=40 --policy region=eu
refused 'MUST region for connection' beta mcp call "$here/acme/shared" add a=2 b=40 --policy region=mars
refused 'MUST no_pii' acme mcp call "$here/acme/shared" add a=2 b=40 --policy no_pii=true

say "tools of acme, as beta lists them"
says 'acme/shared/add' tools ls "$here"

say "STATE: put at acme, got through beta, over QUIC"
id=$("$bin/swp-client" state put "$here/acme" 'a plan')
says 'a plan' state get "$over_quic/acme" "$id"

say "EVENTS: a subscription under a name, and ARTIFACT: a large upload; acme is killed in the middle of both"
"$bin/swp-client" events subscribe "$here" --filter type:acme/orders.new --name demo >events 2>events.log &
listener=$!
until_true test -s events.log -o -e events
says . events publish "$here" --type acme/orders.new --body first
until_true grep -q first events
head -c 150000000 /dev/urandom >big
"$bin/swp-client" artifact put "$here/acme" big --id big >upload 2>&1 &
upload=$!
until_true held
crash "$worker"
echo "(kill -9 of acme)"
worker=''

say "RELAY: taken here while acme is away, and events published to it are refused"
says . relay publish "$here" acme/jobs 'a job' --id 0a
says 'queued' relay status "$here" 0a
! client events publish "$here" --type acme/orders.new --body lost --timeout 40s 2>&1 | tee said
grep -q 'partner acme' said

say "acme is back, and everything goes on"
runs acme
worker=$!
until_true connected 2
wait "$upload"
cat upload
client artifact get "$over_quic" acme/big back
cmp big back && echo "the octets are the same"
says . events publish "$here" --type acme/orders.new --body second
until_true grep -q second events
cat events
[[ $(wc -l <events) == 2 ]]
kill "$listener"
client relay consume "$here/acme" jobs --count 1 | tee said # attached at acme, through beta
grep -q 'a job' said
until_true processed

say "what acme does not allow, and where that is"
! client events publish "$here" --type acme/secrets.new --body x 2>&1 | tee said
grep -q 'spiffe://acme.example/swpd' said
show "$bin/swpd" check --config beta/swpd.yaml --as spiffe://beta.example/swp-client --may events publish acme/secrets.new
"$bin/swpd" check --config beta/swpd.yaml --as spiffe://beta.example/swp-client --may events publish acme/secrets.new

say "a proof of what acme has answered, for a third party that has only the file and the authority of acme"
sent=$("$bin/swpd" audit find --config beta/swpd.yaml --action exchange-sent --partner acme --profile mcp | tail -n 1)
echo "$sent"
until_true proved # acme signs at most once a second
show "$bin/swpd" audit prove "${sent%% *}" --config beta/swpd.yaml --to exchange.json
cat proved
client audit check exchange.json --ca acme/pki/ca.crt --signer spiffe://acme.example/swpd
! client audit check exchange.json --ca beta/pki/ca.crt 2>&1 # which does not vouch for acme

say "both stop, and their trails are verified"
stops "$swpd"
swpd=''
stops "$worker"
worker=''
for org in acme beta; do
	run "$bin/swpd" audit verify --ca "$org/pki/ca.crt" --identity "spiffe://$org.example/swpd" "$org/data/audit"
done

say "somebody makes of bob's denial a permission, by hand"
segment=$(grep -l agents/bob acme/data/audit/* | head -n 1)
sed -i '/agents\/bob/s/"denied"/"ok"/' "$segment"
! "$bin/swpd" audit verify --config acme/swpd.yaml | tee said
grep -q 'faults *[1-9]' said

say "done"
