#!/usr/bin/env bash
# Prints what go test prints, from standard input, and then the packages whose tests took
# longer than their budget. It never fails: the time depends on the machine.
#
#	go test ./... | scripts/budget.sh
#
# A package has 60 s, measured on two cores with twice as many packages under test. Others:
set -euo pipefail
budgets='
daemon 200
store/pgstore 150
test/crash 120
test/e2e 100
'
awk -v budgets="$budgets" '
BEGIN {
	n = split(budgets, words)
	for (i = 1; i < n; i += 2) budget[words[i]] = words[i + 1]
}
{ print; fflush() }
/^(ok|FAIL)[ \t]/ && $3 ~ /^[0-9.]+s$/ {
	name = $2
	sub(/^github.com\/slimwire\/swp\//, "", name)
	most = name in budget ? budget[name] : 60
	if ($3 + 0 > most) over[++count] = sprintf("over its budget: %s took %d s of %d s", name, $3 + 0, most)
}
END { for (i = 1; i <= count; i++) print over[i] }
'
