#!/usr/bin/env bash
# Hunts tests that depend on the load of the machine: builds the tests of each package
# once and runs them ROUNDS times beside LOOPS busy loops. Prints a line for each package,
# the names of tests that failed, and where their output is.
# Usage: flaky.sh ROUNDS LOOPS PACKAGE..., with GO and TESTFLAGS (such as -race) as make
# has them.
set -euo pipefail

go=${GO:-go} rounds=$1 loops=$2
shift 2
dir=$(mktemp -d)
burning=()
trap 'kill "${burning[@]}" 2>/dev/null || true' EXIT

failed=0
while read -r package home; do
	name=${package//\//_}
	# shellcheck disable=SC2086 # several flags
	"$go" test ${TESTFLAGS:-} -c -o "$dir/$name.test" "$package"
	[[ -e $dir/$name.test ]] || continue # it has no tests
	burning=()
	for ((i = 0; i < loops; i++)); do
		(while :; do :; done) &
		burning+=($!)
	done
	bad=0 began=$SECONDS
	for ((i = 1; i <= rounds; i++)); do
		if ! (cd "$home" && "$dir/$name.test" -test.timeout 40m) >"$dir/$name.$i.log" 2>&1; then
			bad=$((bad + 1))
			grep -hE '^ *--- FAIL|^panic:|DATA RACE' "$dir/$name.$i.log" | sed 's/^/  /' || true
			echo "  $dir/$name.$i.log"
		else
			rm "$dir/$name.$i.log"
		fi
	done
	kill "${burning[@]}" 2>/dev/null || true
	wait "${burning[@]}" 2>/dev/null || true
	rm "$dir/$name.test"
	echo "$package: $bad of $rounds failed, $((SECONDS - began)) s"
	failed=$((failed + bad))
done < <("$go" list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Dir}}{{end}}' "$@")
[[ $failed == 0 ]] || exit 1
rmdir "$dir"
