#!/usr/bin/env bash
# Prints what go test has to run for part K of N of all tests, in the order of the packages:
# -run EXPRESSION DIRECTORY...
# Usage: tests-slice.sh K/N    K from 0 to N-1
set -euo pipefail

k=${1%/*} n=${1#*/}
if ! [[ $1 =~ ^[0-9]+/[0-9]+$ ]] || ((k >= n)); then
  echo "tests-slice: SLICE is $1, want K/N such as 3/100, K below N" >&2
  exit 2
fi
list='{{$dir := .Dir}}{{range .TestGoFiles}}{{$dir}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$dir}}/{{.}}{{"\n"}}{{end}}'
# shellcheck disable=SC2046 # No name in the tree has a space.
grep -HE '^func (Test|Fuzz)[A-Z]' $("${GO:-go}" list -f "$list" ./...) | grep -v 'func TestMain(' |
  awk -F ':func |[(]' -v k="$k" -v n="$n" '
    { file[NR] = $1; name[NR] = $2 }
    END {
      for (i = 1; i <= NR; i++) {
        if (int((i - 1) * n / NR) != k) continue
        sub("/[^/]*$", "", file[i])
        names = names "|" name[i]
        if (file[i] != dir) dirs = dirs " " (dir = file[i])
      }
      if (names == "") exit 1
      print "-run ^(" substr(names, 2) ")$" dirs
    }' || { echo "tests-slice: slice $1 has no tests" >&2; exit 2; }
