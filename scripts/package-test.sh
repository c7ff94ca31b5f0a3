#!/usr/bin/env bash
# Installs the .deb in a new Debian root, runs the service as the unit does and purges it:
#   package-test.sh FILE.deb [ROOT]
# It needs root and debootstrap. systemd does not run in the root, so what the unit asks for
# is made by hand: the user, no privileges, a read-only system, a private /tmp. A given ROOT
# is used, or made there, and stays.
set -euo pipefail
deb=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
root=${2:-$work/root}

step() { echo "package-test: $*"; }
in_root() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C HOME=/root "$@"; }
fail() {
  echo "package-test: $*" >&2
  exit 1
}

if [ ! -e "$root/etc/debian_version" ]; then
  step "debootstrap, which takes a minute"
  debootstrap --variant=minbase "${SUITE:-bookworm}" "$root" >"$work/log" 2>&1 || {
    tail -n 20 "$work/log" >&2
    exit 1
  }
fi

step "install"
cp "$deb" "$root/tmp/swpd.deb"
in_root dpkg -i /tmp/swpd.deb | sed 's/^/  /'
in_root swpd version
in_root id swpd

step "configure"
in_root swpd init --dir /etc/swpd --data /var/lib/swpd --group swpd --name spiffe://example.org/swpd --listen 127.0.0.1:17777 >/dev/null
[ "$(stat -c '%a %U %G' "$root/etc/swpd/pki/ca.key")" = "600 root root" ] || fail "the key of the authority can be read by others"

step "run the service with the restrictions of the unit"
command=$(sed -n 's/^ExecStart=//p' "$root/usr/lib/systemd/system/swpd.service")
uid=$(in_root id -u swpd) gid=$(in_root id -g swpd)
ROOT=$root COMMAND=$command IDS="--reuid=$uid --regid=$gid" unshare --mount --propagation private -- bash -euo pipefail -c '
  mount --bind "$ROOT" "$ROOT"
  mount -o remount,bind,ro "$ROOT"                     # ProtectSystem=strict
  mount -t proc proc "$ROOT/proc"
  mount --bind /dev "$ROOT/dev"
  mount -t tmpfs tmpfs "$ROOT/tmp"                     # PrivateTmp
  mount -t tmpfs -o mode=0700 tmpfs "$ROOT/root"       # ProtectHome
  mount --bind "$ROOT/var/lib/swpd" "$ROOT/var/lib/swpd"
  mount -o remount,bind,rw "$ROOT/var/lib/swpd"        # StateDirectory
  cd "$ROOT"
  exec chroot . /usr/bin/setpriv $IDS --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all env -i PATH=/usr/bin:/bin $COMMAND
' 2>"$work/service.log" &
service=$!
stopped() { kill -TERM "$service" 2>/dev/null && wait "$service"; }
trap 'kill -KILL "$service" 2>/dev/null || true; rm -rf --one-file-system "$work"' EXIT
for _ in $(seq 100); do
  in_root swp-client --identity /etc/swpd/pki rpc call swp+tls://127.0.0.1:17777 swp.ping >/dev/null 2>&1 && break
  kill -0 "$service" 2>/dev/null || {
    cat "$work/service.log" >&2
    fail "swpd ended"
  }
  sleep 0.2
done
for address in swp+tls://127.0.0.1:17777 swp+quic://127.0.0.1:17777; do
  in_root swp-client --identity /etc/swpd/pki ping --count 1 "$address"
done
in_root swpd status --config /etc/swpd/swpd.yaml | head -n 5
grep -E '^(Uid|Gid|NoNewPrivs|CapEff)' "/proc/$service/status"
stopped || fail "swpd did not end in order"
[ "$(stat -c %u "$root/var/lib/swpd")" = "$uid" ] || fail "the data belongs to another user"

step "install again, as an upgrade: configuration and data stay"
before=$(sha256sum "$root/etc/swpd/swpd.yaml" "$root/etc/swpd/pki/server.key")
in_root dpkg -i /tmp/swpd.deb >/dev/null
[ "$before" = "$(sha256sum "$root/etc/swpd/swpd.yaml" "$root/etc/swpd/pki/server.key")" ] || fail "the upgrade changed the configuration"
[ -n "$(ls -A "$root/var/lib/swpd")" ] || fail "the upgrade lost the data"

step "remove, then purge"
in_root dpkg -r swpd >/dev/null
[ -e "$root/etc/swpd/swpd.yaml" ] || fail "a removal lost the configuration"
in_root dpkg -P swpd >/dev/null
for left in etc/swpd var/lib/swpd usr/bin/swpd usr/lib/systemd/system/swpd.service; do
  [ ! -e "$root/$left" ] || fail "$left is left after the purge"
done
! in_root id swpd 2>/dev/null || fail "the user swpd is left after the purge"
step "passed"
