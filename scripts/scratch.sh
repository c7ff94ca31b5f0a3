#!/usr/bin/env bash
# Prints the directory where tests keep their files: TMPDIR if it is set, otherwise memory, where it has
# room and runs programs, because few tests are about a disk and most would wait for it. What a killed
# process wrote is also there afterwards, and the test of a power cut has a disk of its own.
#
#	TMPDIR=$(scripts/scratch.sh) go test ./...
set -euo pipefail
[ -z "${TMPDIR:-}" ] || { echo "$TMPDIR"; exit; }
memory=/dev/shm
if free=$(df -Pk "$memory" 2>/dev/null | awk 'END {print $4}') && ((free > 4 << 20)) && # KiB
	probe=$(mktemp "$memory/probe.XXXXXX" 2>/dev/null); then
	trap 'rm -f "$probe"' EXIT
	printf '#!/bin/sh\n' >"$probe"
	chmod +x "$probe"
	"$probe" 2>/dev/null && { echo "$memory"; exit; }
fi
echo /tmp
