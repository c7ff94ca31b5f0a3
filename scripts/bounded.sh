#!/usr/bin/env bash
# Runs tests, one package after the other, for at most a time that does not include their
# compilation. It prints the result of each test, the output of a package that fails, and in
# the end how many tests have finished, and which have not. That some have not is no failure,
# because a slow machine is none.
# Usage: bounded.sh TIME [FLAG OF go test]... -run EXPRESSION DIRECTORY...    TIME such as 6m
set -euo pipefail

time=$1 flags=()
shift
while [[ $1 != -run ]]; do
  flags+=("$1")
  shift
done
expression=$2
shift 2
case $time in
*h) left=$((${time%h} * 3600)) ;;
*m) left=$((${time%m} * 60)) ;;
*) left=${time%s} ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
name() { # DIRECTORY: its name in this tree
  echo ".${1#"$PWD"}"
}
for dir in "$@"; do # this compiles the tests
  if ! (cd "$dir" && "${GO:-go}" test "${flags[@]}" -list "$expression" .) >"$work/listed"; then
    cat "$work/listed"
    exit 1
  fi
  awk -v dir="$(name "$dir")" '/^(Test|Fuzz)/ {print dir, $1}' "$work/listed" >>"$work/all"
done

failed=0
for dir in "$@"; do
  ((left > 0)) || break
  began=$SECONDS code=0
  (cd "$dir" && exec timeout --kill-after=10s "${left}s" "${GO:-go}" test "${flags[@]}" -v -timeout 0 -run "$expression" .) >"$work/log" 2>&1 || code=$?
  ((left -= SECONDS - began)) || true
  awk -v dir="$(name "$dir")" '/^--- (PASS|FAIL|SKIP): / {print dir, $3 >>"'"$work"'/done"; print $2, dir, $3, $4}' "$work/log"
  if grep -qE '^ *--- FAIL|^panic:|DATA RACE' "$work/log" || ((code != 0 && code != 124 && code != 137)); then
    cat "$work/log"
    failed=1
  fi
done

touch "$work/all" "$work/done"
missing=$(grep -vxFf "$work/done" "$work/all" || true)
all=$(wc -l <"$work/all")
if [[ -n $missing ]]; then
  count=$(wc -l <<<"$missing")
  echo "not finished: $count of $all tests, of which nothing is known, because $time were over:"
  sed 's/^/  /' <<<"$missing"
else
  echo "finished: all $all tests"
fi
exit "$failed"
