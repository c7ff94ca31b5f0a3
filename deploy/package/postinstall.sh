#!/bin/sh
# After an installation or an upgrade: the account, the directories, and on an upgrade a
# restart of a running service.
set -e
getent group swpd >/dev/null || groupadd --system swpd
getent passwd swpd >/dev/null ||
	useradd --system --gid swpd --home-dir /var/lib/swpd --no-create-home --shell /usr/sbin/nologin --comment "SlimWire endpoint" swpd
[ -d /etc/swpd ] || install -d -m 0750 -o root -g swpd /etc/swpd
[ -d /var/lib/swpd ] || install -d -m 0700 -o swpd -g swpd /var/lib/swpd
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart swpd.service
fi
if [ ! -e /etc/swpd/swpd.yaml ]; then
	echo "swpd: not configured yet. Make certificates and a configuration, then start it:"
	echo "  swpd init --dir /etc/swpd --data /var/lib/swpd --group swpd --name spiffe://example.org/swpd"
	echo "  systemctl enable --now swpd"
fi
