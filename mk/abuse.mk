# What ABUSE asks of time and memory is measured apart from the tests: without
# the race detector, and not on a machine that does other work meanwhile.

##@ Abuse

.PHONY: abuse
abuse: ## the bounds on time and memory under abuse, best of several tries
	$(GO) test -tags abuse -count 1 -p 1 -v -timeout 40m -run '^TestAbuse' $$(grep -rl --include='*_test.go' '^//go:build.*abuse' . | xargs -n 1 dirname | sort -u)

ABUSE_TIME ?= 10m

.PHONY: abuse-memory
abuse-memory: ## every entrance attacked at once for ABUSE_TIME: swpd stays within its memory and answers
	ABUSE_TIME=$(ABUSE_TIME) nice $(GO) test -tags abuse -count 1 -v -timeout 0 -run '^TestAbuseRS17' ./test/abuse
