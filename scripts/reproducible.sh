#!/usr/bin/env bash
# Builds the packages of HEAD twice, in two clones at paths of different length, and compares.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for clone in a bbbbbbbbbbbb; do
  git clone -q . "$work/$clone"
  echo "reproducible: build in $clone"
  make -s -C "$work/$clone" packages DIST="$work/$clone.dist" >"$work/log" || {
    cat "$work/log" >&2
    exit 1
  }
done
diff "$work"/a.dist/SHA256SUMS "$work"/bbbbbbbbbbbb.dist/SHA256SUMS
echo "reproducible: $(wc -l <"$work/a.dist/SHA256SUMS") files are the same octets"
