#!/bin/sh
# After a removal. Configuration, keys and data stay until a purge, which only dpkg has.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
fi
[ "$1" = purge ] || exit 0
rm -rf /etc/swpd /var/lib/swpd
if getent passwd swpd >/dev/null; then
	userdel swpd || true
fi
