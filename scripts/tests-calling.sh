#!/usr/bin/env bash
# Prints what go test has to run for those tests whose source calls one of some functions
# of internal/effort: -run EXPRESSION DIRECTORY...
# Usage: tests-calling.sh 'Unwatched|Watched' DIRECTORY...
set -euo pipefail

functions=$1
shift
files=$(grep -rlE --include='*_test.go' "effort\.($functions)\b" "$@")
# shellcheck disable=SC2086 # one word for each file
names=$(awk -F '[ (]' -v call="effort[.]($functions)([^[:alnum:]]|$)" '/^func Test/ {name = $2} $0 ~ call {print name}' $files | sort -u | paste -sd '|')
# shellcheck disable=SC2086
echo "-run ^($names)\$ $(dirname $files | sort -u | paste -sd ' ')"
