#!/usr/bin/env bash
# Builds programs and says how far it is: the first build on a machine compiles some
# hundred packages, which takes minutes. Usage: build.sh DIR PACKAGE..., with GO and
# LDFLAGS as make has them.
set -euo pipefail

go=${GO:-go} dir=$1
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT

names=("${@##*/}")
echo "building ${names[*]} into ${dir##*/}/: some seconds; the first time some minutes"
packages=$("$go" list -deps "$@" | wc -l) # go says itself what it downloads

# Without -trimpath, so that tests find the same packages in the cache.
"$go" build -v -ldflags "${LDFLAGS:-}" -o "$dir/" "$@" 2>"$log" &
build=$!
began=$SECONDS
said=$SECONDS
while kill -0 "$build" 2>/dev/null; do
	sleep 0.2
	if ((SECONDS - said >= 5 + (SECONDS - began) / 10)); then
		said=$SECONDS
		printf '  %d s: %d of at most %d packages begun, the last is %s\n' \
			$((SECONDS - began)) "$(wc -l <"$log")" "$packages" "$(tail -n 1 "$log")"
	fi
done
wait "$build" || {
	cat "$log" >&2
	exit 1
}
echo "built in $((SECONDS - began)) s"
