#!/usr/bin/env bash
# Two real MCP servers behind swpd, their tools listed and called over mutual TLS
# and again over QUIC. Usage: demo.sh DIR, where make demo has put the programs.
set -euo pipefail

source "${BASH_SOURCE%/*}/stage.sh"

say "certificates and a configuration, with two MCP servers behind the endpoint"
run "$bin/swpd" init --dir "$dir"
cat >>"$dir/swpd.yaml" <<YAML
mcp:
  servers:
    modern: {command: $bin/mcp-modern, default: true}
    legacy: {command: $bin/mcp-legacy}
YAML
run "$bin/swpd" check

say "swpd runs"
serve
run "$bin/swpd" status # fails unless it is ready

client() { run "$bin/swp-client" --identity "$dir/pki" "$@"; }
for address in "$tls" "$quic"; do
	say "over ${address%%:*}"
	client ping -c 3 "$address"
	client mcp list "$address"
	client mcp call "$address" echo "text=hello over ${address%%:*}"
	for server in modern legacy; do
		client mcp call "$address/$server" add a=2 b=40 | tee "$dir/answer"
		grep -q '"sum":42' "$dir/answer" || { echo "demo: want 42" >&2; exit 1; }
	done
done

say "done: stopping swpd and the servers behind it"
