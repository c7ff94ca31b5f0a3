#!/usr/bin/env bash
# Two real MCP servers behind swpd, their tools listed and called over mutual TLS
# and again over QUIC. Usage: demo.sh DIR, where make demo has put the programs.
set -euo pipefail

bin=$1
dir=$(mktemp -d)
swpd=

stop() {
	local status=$?
	trap - EXIT INT TERM
	if [[ -n $swpd ]] && kill -TERM "$swpd" 2>/dev/null; then
		wait "$swpd" || status=$?
	fi
	if ((status != 0)); then
		printf '\ndemo: FAILED; the log of swpd:\n' >&2
		cat "$dir/swpd.log" >&2 2>/dev/null || true
	fi
	rm -rf "$dir"
	exit "$status"
}
trap stop EXIT INT TERM

say() { printf '\n== %s\n' "$*"; }
run() {
	printf '$ %s\n' "${*//$bin\//}"
	"$@"
}

say "certificates and a configuration, with two MCP servers behind the endpoint"
run "$bin/swpd" init --dir "$dir"
cat >>"$dir/swpd.yaml" <<YAML
mcp:
  servers:
    modern: {command: $bin/examples/mcp-modern, default: true}
    legacy: {command: $bin/examples/mcp-legacy}
YAML
# Whatever this machine runs already, the system finds free ports.
export SWPD_CONFIG=$dir/swpd.yaml SWPD_ADMIN=127.0.0.1:0
export SWPD_LISTENERS_0_ADDRESS=swp+tls://127.0.0.1:0 SWPD_LISTENERS_1_ADDRESS=swp+quic://127.0.0.1:0
run "$bin/swpd" check

say "swpd runs"
"$bin/swpd" run --addr-file "$dir/addresses" 2>"$dir/swpd.log" &
swpd=$!
for ((i = 0; i < 100; i++)); do
	[[ -s $dir/addresses ]] && break
	kill -0 "$swpd" 2>/dev/null || exit 1
	sleep 0.1
done
{
	read -r tls
	read -r quic
	read -r admin
} <"$dir/addresses"
run "$bin/swpd" status --admin "$admin" # fails unless it is ready

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
