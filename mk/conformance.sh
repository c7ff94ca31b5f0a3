#!/usr/bin/env bash
# One conformance run: a JSON summary, a log, and one line that sums it up.
#
#   conformance.sh LABEL default|strict JSON DIR RUNNER [ARG...]
#
# A failure of the default run is the exit code. A failure of the strict run is
# reported and tolerated, as the spec kit has it: the line says how many failed.
set -euo pipefail
label=$1 mode=$2 json=$3 dir=$4
shift 4

log=$dir/${label,,}.$mode.log
mkdir -p "$dir" "$(dirname "$json")"
rm -f "$json"
{
  printf '$'
  printf ' %q' "$@" -json-out "$json"
  printf '\n'
} >"$log"

code=0
"$@" -json-out "$json" >>"$log" 2>&1 || code=$?

if [[ ! -s $json ]]; then
  printf '%s\n' '{' '  "schema_version": 1,' '  "total": 0,' '  "passed": 0,' '  "failed": 0,' \
    '  "fallback_count": 0,' '  "results": []' '}' >"$json"
fi
count() { sed -n "s/^  \"$1\": \([0-9]*\).*/\1/p" "$json"; }
total=$(count total)
echo "$label $mode: total=${total:-0} passed=$(count passed) failed=$(count failed) fallback=$(count fallback_count) json=$json"

if [[ $mode == default && $code != 0 ]]; then
  grep -v '^PASS' "$log" >&2 || true
  exit "$code"
fi
