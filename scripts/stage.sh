# What the demonstrations share, sourced by each with the folder of the programs: a
# folder of its own, swpd on free ports, and an end that leaves nothing behind.

bin=$1
dir=$(mktemp -d)
swpd='' worker='' # processes

stop() {
	local status=$?
	trap - EXIT INT TERM
	if [[ -n $worker ]] && kill -TERM "$worker" 2>/dev/null; then
		wait "$worker" || true
	fi
	if [[ -n $swpd ]] && kill -TERM "$swpd" 2>/dev/null; then
		wait "$swpd" || status=$?
	fi
	if ((status != 0)); then
		printf '\n%s: FAILED; what swpd and others said:\n' "$0" >&2
		cat "$dir"/*.log >&2 2>/dev/null || true
	fi
	rm -rf "$dir"
	exit "$status"
}
trap stop EXIT INT TERM

say() { printf '\n== %s\n' "$*"; }
show() { printf '$ %s\n' "${*//$bin\//}"; }
run() {
	show "$@"
	"$@"
}

# until_true COMMAND waits, for half a minute at most, until a command succeeds.
until_true() {
	local i
	for ((i = 0; i < 300; i++)); do
		"$@" && return
		sleep 0.1
	done
	echo "$0: waited in vain for: $*" >&2
	exit 1
}

# serve starts swpd and returns when it serves, at $tls, $quic and $admin. Whatever
# this machine runs already, the system finds free ports.
export SWPD_CONFIG=$dir/swpd.yaml SWPD_ADMIN=127.0.0.1:0
export SWPD_LISTENERS_0_ADDRESS=swp+tls://127.0.0.1:0 SWPD_LISTENERS_1_ADDRESS=swp+quic://127.0.0.1:0
serve() {
	rm -f "$dir/addresses"
	"$bin/swpd" run --addr-file "$dir/addresses" 2>>"$dir/swpd.log" &
	swpd=$!
	until_true serving
	{
		read -r tls
		read -r quic
		read -r admin
	} <"$dir/addresses"
}

serving() {
	kill -0 "$swpd" 2>/dev/null || exit 1
	[[ -s $dir/addresses ]]
}

# crash kills processes as nobody expects it.
crash() {
	local pid
	disown "$@" # the shell need not comment on it
	kill -KILL "$@"
	for pid in "$@"; do until_true gone "$pid"; done
}

gone() { ! kill -0 "$1" 2>/dev/null; }
