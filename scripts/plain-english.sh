#!/bin/sh
# Counts markers of a manner that these documents leave: relative clauses in place of
# nouns, terms of art that nobody knows, pronouns without an owner. It prints a line for
# each file, the worst first, with markers and markers for 1,000 words, then the total.
#
#	scripts/plain-english.sh              README.md, CONTRIBUTING.md and docs/*.md
#	scripts/plain-english.sh --go         the Go files of the tree, without tests and generated files
#	scripts/plain-english.sh FILE...      these files
#	scripts/plain-english.sh -l FILE...   the lines with markers of these files
#
# Of a Go file only the lines that are comments count.
set -eu
cd "$(dirname "$0")/.."

# One extended regular expression a line.
markers='\b[Ww]ho(ever)? (does|did|has|have|is|was|asks|calls|sends|reads|writes|comes|may|can|shows?|wants|goes|takes|gets|owns|dials|runs|knows|makes|keeps|put|puts|needs|lists|connects?|dialled|embeds)\b
\b(to|for|of|by|from|with|than|as|at|in) (what|whoever|whom|whose)\b
(^|[.;:,|(] *|\b(and|but|or|that|if|when|because) )[Ww]hat (is|was|are|were|has|had|does|do|did|cannot|can|may|must|they|it|a|an|the|peers?|somebody|nobody|came|comes|goes|else|follows|lies|stands|belongs|crosses|passed|happens to)\b
\b(those|these|that|one|ones|all) (of|who|that|which|for|behind|in) (which|whom|them|it)\b
\b(that|those) (of|in|for|behind|from|between|with) (the|a|an|its|their|his|one|this|other|each|MCP|A2A)\b
\b(which|that) (must|has to|have to|may|might|should) \b
\b(somebody|someone|anybody|anyone|nobody|everybody|everyone) (else|who|that|may|can|has|is|gets)\b
\bcan not\b
\b(anew|whatever|thereof|therein|hitherto|meanwhile|likewise|ere|lest|whence|wherever|whichever)\b
\bas (it|they) (is|are|was|were)\b
\b(a|an|the|it|they|he|who|which|that|[a-z]{6,}) (is|are|was|were) (no [a-km-z][a-z]*|none [a-z]+)\b
\bto who\b
\bso (does|do|is|are|did|has|have) \b
\b(there is|there are) (what|who|none)\b
\bof (its|their|his) own\b
\bheld against\b|\bcomes? to nothing\b|\bmakes? nothing of\b|\bkeeps? (no|a) MUST\b|\bgoes on where\b'

prose() { # FILE: its text without code
	case $1 in
	*.go) sed -n 's|^[[:space:]]*// *||p' "$1" ;;
	*) sed '/^```/,/^```/d' "$1" ;;
	esac
}

lines() { # FILE: its lines with markers, as FILE:NUMBER:LINE
	case $1 in
	*.go) grep -HnE '^[[:space:]]*//' "$1" | grep -E -f "$list" || true ;;
	*) grep -HnE -f "$list" "$1" || true ;;
	esac
}

list=$(mktemp)
trap 'rm -f "$list"' EXIT
printf '%s\n' "$markers" >"$list"

if [ "${1:-}" = -l ]; then
	shift
	for file in "$@"; do
		lines "$file"
	done
	exit 0
fi

if [ "${1:-}" = --go ]; then
	# shellcheck disable=SC2046 # No name in the tree has a space.
	set -- $(git ls-files '*.go' | grep -vE '(_test|\.gen|\.pb)\.go$')
fi
[ $# -gt 0 ] || set -- README.md CONTRIBUTING.md SECURITY.md CHANGELOG.md docs/*.md
for file in "$@"; do
	words=$(prose "$file" | wc -w)
	n=$(prose "$file" | { grep -oE -f "$list" || true; } | wc -l)
	echo "$n $((n * 1000 / (words + 1))) $file"
done | sort -k1,1nr | awk '
	BEGIN { printf "%7s %9s  %s\n", "markers", "per 1000", "file" }
	{ printf "%7d %9d  %s\n", $1, $2, $3; total += $1 }
	END { printf "%7d %9s  total\n", total, "" }'
