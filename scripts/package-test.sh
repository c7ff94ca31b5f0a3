#!/usr/bin/env bash
# Installs a .deb in two new Debian roots, the organisations east and west, and runs swpd in each
# as the unit does:
#   package-test.sh FILE.deb PREVIOUS.deb MCP-SERVER [DIR]
# They become partners, and west calls a tool of east. Both are upgraded from PREVIOUS.deb to
# FILE.deb under traffic. East is backed up, purged, installed again and restored.
#
# It needs root, debootstrap and network namespaces. systemd does not run in the roots, so what the
# unit asks for is made by hand: the user, no privileges, a read-only system, a private /tmp, and
# the sockets of swpd.socket, which stay open during a restart. In a given DIR the new Debian root
# is used again by the next run.
set -euo pipefail
deb=$(realpath "$1") previous=$(realpath "$2") server=$(realpath "$3")
work=$(mktemp -d)
base=${4:-$work}/base
declare -A port=([east]=17777 [west]=27777) manager=()

end() {
  touch "$work/stop"
  for one in "${manager[@]}"; do kill -KILL "$one" $(pgrep -P "$one") 2>/dev/null || true; done
  wait 2>/dev/null
  rm -rf --one-file-system "$work"
}
trap end EXIT

step() { echo "package-test: $*"; }
fail() {
  echo "package-test: $*" >&2
  tail -n 5 "$work"/*.log >&2 || true
  exit 1
}
# at ORGANISATION COMMAND... runs a command in a root.
at() { chroot "$work/$1" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C HOME=/root "${@:2}"; }
# until_ COMMAND... waits for a command to succeed.
until_() {
  for _ in $(seq 300); do
    "$@" >/dev/null 2>&1 && return
    sleep 0.2
  done
  fail "after a minute this still fails: $*"
}
install() {
  cp "$2" "$work/$1/tmp/swpd.deb"
  at "$1" dpkg -i /tmp/swpd.deb >"$work/dpkg.log"
}

# manage ADDRESS COMMAND... opens the sockets of an address and runs a command with them, as
# systemd does for swpd.socket. SIGHUP restarts the command, SIGTERM ends it.
manage='
use strict; use warnings; use IO::Socket::INET;
$^F = 9; # the sockets stay open in the command
my ($address, @command) = @ARGV;
my $tcp = IO::Socket::INET->new(LocalAddr => $address, Proto => "tcp", Listen => 4096, ReuseAddr => 1) or die "$address: $@";
my $udp = IO::Socket::INET->new(LocalAddr => $address, Proto => "udp") or die "$address: $@";
die "the sockets are not descriptors 3 and 4" unless fileno($tcp) == 3 && fileno($udp) == 4;
my ($child, $again) = (0, 1);
$SIG{HUP} = sub { $again = 1; kill TERM => $child };
$SIG{TERM} = sub { $again = 0; kill TERM => $child };
while ($again) {
  $again = 0;
  defined($child = fork) or die "fork: $!";
  if (!$child) { $SIG{$_} = "DEFAULT" for qw(HUP TERM); $ENV{LISTEN_PID} = $$; $ENV{LISTEN_FDS} = 2; exec @command or die "$command[0]: $!" }
  1 while waitpid($child, 0) != $child;
}
exit($? >> 8 || $? & 127);
'

# serve ORGANISATION runs the command of the unit with its restrictions.
serve() {
  local root=$work/$1 uid gid command
  command=$(sed -n 's/^ExecStart=//p' "$root/usr/lib/systemd/system/swpd.service")
  uid=$(at "$1" id -u swpd) gid=$(at "$1" id -g swpd)
  ROOT=$root COMMAND=$command IDS="--reuid=$uid --regid=$gid" ADDRESS=127.0.0.1:${port[$1]} MANAGE=$manage \
    unshare --mount --propagation private -- bash -euo pipefail -c '
      mount --bind "$ROOT" "$ROOT"
      mount -o remount,bind,ro "$ROOT"                     # ProtectSystem=strict
      mount -t proc proc "$ROOT/proc"
      mount --bind /dev "$ROOT/dev"
      mount -t tmpfs tmpfs "$ROOT/tmp"                     # PrivateTmp
      mount -t tmpfs -o mode=0700 tmpfs "$ROOT/root"       # ProtectHome
      mount --bind "$ROOT/var/lib/swpd" "$ROOT/var/lib/swpd"
      mount -o remount,bind,rw "$ROOT/var/lib/swpd"        # StateDirectory
      cd "$ROOT"
      exec chroot . /usr/bin/env -i PATH=/usr/bin:/bin perl -e "$MANAGE" "$ADDRESS" \
        setpriv $IDS --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all $COMMAND
    ' 2>>"$work/$1.log" &
  manager[$1]=$!
  until_ at "$1" swpd status --config /etc/swpd/swpd.yaml
}
stopped() {
  kill -TERM "${manager[$1]}"
  wait "${manager[$1]}" || fail "swpd of $1 did not end in order"
  unset "manager[$1]"
}
pid() { pgrep -P "${manager[$1]}"; }
connected() { at west swpd status --config /etc/swpd/swpd.yaml | grep 'east: up'; }
client() { at west swp-client --identity /etc/swpd/pki "$@"; }
executed() { at east swpd audit find --config /etc/swpd/swpd.yaml --operation tools/call --outcome ok --json | wc -l; }

if [ ! -e "$base/etc/debian_version" ]; then
  step "debootstrap, which takes a minute"
  debootstrap --variant=minbase "${SUITE:-bookworm}" "$base" >"$work/debootstrap.log" 2>&1 || fail "debootstrap failed"
fi

step "install the previous version in two roots, and configure it"
for one in east west; do
  cp -a "$base" "$work/$one"
  install "$one" "$previous"
  at "$one" id swpd
  at "$one" swpd init --dir /etc/swpd --data /var/lib/swpd --group swpd --name "spiffe://$one.example/swpd" --listen "127.0.0.1:${port[$one]}" >/dev/null
  [ "$(stat -c '%a %U %G' "$work/$one/etc/swpd/pki/ca.key")" = "600 root root" ] || fail "the key of the authority can be read by others"
done
cp "$server" "$work/east/usr/local/bin/mcp-server"
cat >>"$work/east/etc/swpd/swpd.yaml" <<'YAML'
mcp: {servers: {shared: {command: /usr/local/bin/mcp-server}}}
YAML

step "run both services with the restrictions of the unit"
serve east
serve west
grep -E '^(Uid|Gid|NoNewPrivs|CapEff)' "/proc/$(pid east)/status"
for scheme in swp+tls swp+quic; do client ping --count 1 "$scheme://127.0.0.1:${port[west]}"; done

step "invite and accept"
told() { tee /dev/stderr | sed -n 's/^fingerprint of the [a-z]*: \([0-9a-f]*\);.*/\1/p'; }
word=$(at east swpd partner invite west --config /etc/swpd/swpd.yaml --offer mcp:shared/add --out /tmp/invitation | told)
cp "$work/east/tmp/invitation" "$work/west/tmp/"
word=$(at west swpd partner accept /tmp/invitation --config /etc/swpd/swpd.yaml --reply /tmp/reply --yes --fingerprint "$word" | told)
cp "$work/west/tmp/reply" "$work/east/tmp/"
at east swpd partner accept /tmp/reply --config /etc/swpd/swpd.yaml --yes --fingerprint "$word" >/dev/null
until_ connected
[ "$(client mcp call "swp+tls://127.0.0.1:${port[west]}/east/shared" add a=2 b=40)" = '{"sum":42}' ] || fail "the call across the partner failed"
before=$(executed)

# kept calls over one connection, new over a connection for each call, until $work/stop is there.
# Both say how many they made.
kept() {
  local n=0
  while [ ! -e "$work/stop" ]; do
    n=$((n + 1))
    printf '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"add","arguments":{"a":%d,"b":1},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"package-test","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}\n' "$n" "$n"
    echo "$n" >"$work/kept.sent"
    sleep 0.02
  done
}
new() {
  local n=0
  while [ ! -e "$work/stop" ]; do
    n=$((n + 1))
    [ "$(client mcp call "swp+tls://127.0.0.1:${port[west]}/east/shared" add "a=$n" b=1)" = "{\"sum\":$((n + 1))}" ] || echo "call $n" >>"$work/new.failed"
    echo "$n" >"$work/new.sent"
  done
}

step "upgrade both under traffic: east, which carries the calls out, then west, which the callers are connected to"
kept | client mcp stdio "swp+tls://127.0.0.1:${port[west]}/east/shared" >"$work/kept.answers" 2>"$work/kept.log" &
traffic=($!)
new 2>"$work/new.log" &
traffic+=($!)
sleep 3
settings=$(cd "$work" && find east/etc/swpd west/etc/swpd -type f -exec sha256sum {} + | sort)
for one in east west; do
  old=$(pid "$one")
  install "$one" "$deb"
  kill -HUP "${manager[$one]}" # what the package does where systemd runs
  until_ eval "[ \"\$(pid $one)\" != $old ] && at $one swpd status --config /etc/swpd/swpd.yaml"
  at "$one" swpd version
  sleep 3
done
touch "$work/stop"
wait "${traffic[@]}" || fail "a caller ended with an error"
rm "$work/stop"
[ "$settings" = "$(cd "$work" && find east/etc/swpd west/etc/swpd -type f -exec sha256sum {} + | sort)" ] || fail "the upgrade changed the configuration"
kept=$(cat "$work/kept.sent") new=$(cat "$work/new.sent")
right=$(grep -c '"result"' "$work/kept.answers")
[ "$right" = "$kept" ] || fail "$kept calls over the kept connection, $right results: $(grep -v '"result"' "$work/kept.answers" | head -n 3)"
for ((n = 1; n <= kept; n++)); do
  grep -q "\"id\":$n,.*sum[^0-9]*$((n + 1))[^0-9]\|sum[^0-9]*$((n + 1))[^0-9].*\"id\":$n[,}]" "$work/kept.answers" || fail "call $n over the kept connection has no right answer"
done
[ ! -e "$work/new.failed" ] || fail "of $new calls over new connections failed: $(head -n 5 "$work/new.failed")"
[ $(($(executed) - before)) = $((kept + new)) ] || fail "$((kept + new)) calls, and $(($(executed) - before)) were carried out"
step "$kept calls over a kept connection and $new over new ones: each was answered, and carried out once"

step "back up, purge, install, restore"
address=swp+tls://127.0.0.1:${port[east]}
head -c 3000000 /dev/urandom >"$work/east/root/content"
id=$(at east swp-client --identity /etc/swpd/pki artifact put "$address" /root/content)
at east swpd backup --config /etc/swpd/swpd.yaml /root/backup
at east tar -C /etc -cf /root/etc.tar swpd # keys and configuration are not in the backup
stopped east
at east dpkg -r swpd >/dev/null
[ -e "$work/east/etc/swpd/swpd.yaml" ] || fail "a removal lost the configuration"
at east dpkg -P swpd >/dev/null
for left in etc/swpd var/lib/swpd usr/bin/swpd usr/lib/systemd/system/swpd.service; do
  [ ! -e "$work/east/$left" ] || fail "$left is left after the purge"
done
! at east id swpd 2>/dev/null || fail "the user swpd is left after the purge"
install east "$deb"
at east tar -C /etc -xf /root/etc.tar
at east runuser -u swpd -- swpd restore --config /etc/swpd/swpd.yaml - <"$work/east/root/backup/backup.swp"
serve east
at east swp-client --identity /etc/swpd/pki artifact get "$address" "$id" - >"$work/content"
cmp "$work/content" "$work/east/root/content" || fail "the artifact has other octets after the restore"
until_ connected
[ "$(client mcp call "swp+tls://127.0.0.1:${port[west]}/east/shared" add a=2 b=40)" = '{"sum":42}' ] || fail "the call across the partner failed after the restore"
stopped east
stopped west
step "passed"
