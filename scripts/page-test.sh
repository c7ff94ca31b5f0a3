#!/usr/bin/env bash
# page-test.sh [FLAG OF go test]...: the admin page in Chromium; the tests are in daemon/browser_test.go. Screenshots: bin/page.
set -euo pipefail
cd "$(dirname "$0")/.."
export CHROMIUM=${CHROMIUM:-$(command -v chromium || true)}
for need in node npm; do command -v $need >/dev/null || { echo "page-test: skipped: $need is not installed"; exit 0; }; done
[[ -x $CHROMIUM ]] || { echo "page-test: skipped: no chromium; set CHROMIUM, or install Debian's package"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r test/page/. "$work" # node_modules stays out of the tree
(cd "$work" && npm ci --ignore-scripts --no-audit --no-fund >/dev/null)
SWP_PAGE=$work SWP_SCREENSHOTS=$PWD/bin/page "${GO:-go}" test ./daemon -count=1 -run InABrowser -v -timeout 30m "$@" | grep --line-buffered -v "^=== "
