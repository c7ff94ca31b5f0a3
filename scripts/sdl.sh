#!/usr/bin/env bash
# A request of A2A-SDL, signed and encrypted, answered over mutual TLS by a tool of a
# real MCP server; then the same octets again, before and after swpd was killed.
# Usage: sdl.sh DIR, where make demo-sdl has put the programs.
set -euo pipefail

source "${BASH_SOURCE%/*}/stage.sh"
export SWP_IDENTITY=$dir/pki

client() { run "$bin/swp-client" "$@"; }

say "keys of a caller and of the endpoint, which trusts the caller's signature and encrypts answers to it"
client sdl keygen --agent did:key:caller "$dir/caller"
client sdl keygen --agent did:web:server.example --trust "@$dir/caller/sign.pub" --recipient "@$dir/caller/box.pub" "$dir/server"

say "swpd, which takes what is signed and encrypted, each envelope once"
run "$bin/swpd" init --dir "$dir"
cat >>"$dir/swpd.yaml" <<YAML
mcp:
  servers:
    modern: {command: $bin/mcp-modern}
sdl:
  agent_id: did:web:server.example
  keys: server/keys.json
  mode: enc+sig
  replay: {required: true}
  sign: {key: server/sign.key, kid: "did:web:server.example#1"}
  tools: {allow: [modern/add]}
YAML
serve

say "a request, sealed"
cat >"$dir/request.json" <<'JSON'
{"v":1,"id":"0197f2a0-0000-7000-8000-000000000001","ts":"2026-01-01T00:00:00Z","type":"req",
 "from":{"agent_id":"did:key:caller","name":"caller","instance":"1","role":"caller"},
 "to":{"agent_id":"did:web:server.example","name":"server","instance":"1","role":"server"},
 "cap":{},"ct":"toolcall.v1",
 "schema":{"kind":"embedded","id":"sha256:a2c799262a3ce3c19ef5cdd983bf3d12b43ab3c426227091b909dcb7054738c0","embedded":{"type":"object"}},
 "payload":{"tool":"modern/add","call_id":"1","args":{"a":2,"b":40},"expect":{}},
 "trace":{"root_id":"root","span_id":"span","hops":0}}
JSON
client sdl seal --sign "$dir/caller/sign.key" --encrypt "@$dir/server/box.pub" "@$dir/request.json" >"$dir/seal.out"
tail -n 1 "$dir/seal.out" >"$dir/sealed.json"
head -c 300 "$dir/sealed.json" && echo …

send() { client sdl send "$tls" "@$dir/sealed.json" --envelope --trust "@$dir/server/sign.pub" --keys "$dir/caller/keys.json"; }
refused() {
	if send 2>"$dir/refusal"; then
		echo "demo-sdl: it was answered twice" >&2
		exit 1
	fi
	cat "$dir/refusal"
	grep -q replay_detected "$dir/refusal"
}

say "it is answered by the tool"
send | tee "$dir/answer"
grep -q '"sum":42' "$dir/answer"
say "the same octets again"
refused
say "and again, after swpd was killed"
crash "$swpd"
serve
refused

say "done"
