#!/bin/sh
# Before a removal. dpkg names the action, rpm the number of versions that stay; an upgrade
# leaves the service running.
set -e
case "$1" in
remove | 0) ;;
*) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
	systemctl disable --now swpd.service swpd.socket || true
fi
