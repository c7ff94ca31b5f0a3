# make          the targets
# make demo     a real MCP server behind swpd, called over TLS and QUIC
# make test     all tests, most with the race detector
#
# Larger families of targets have files of their own: mk/*.mk.

GO      ?= go
BIN     := bin
TOOL     = $(GO) tool -modfile=tools/$(1)/go.mod $(1)
BUF     := $(call TOOL,buf)
LINT    := $(call TOOL,golangci-lint)
FUZZ_TIME ?= 30s
TEST_TIMEOUT ?= 40m

# WATCHED are the packages whose goroutines share most: in make test the race detector
# watches them. make test-long has it watch all, and CI a slice of those for each commit.
WATCHED := client|internal/partner|transport/endpoint|profiles/(a2a|relay|rpc)

# RACE has the race detector watch all but SQLite, which is C that was translated into Go:
# watched, it makes the tests of whatever is stored take three times as long.
RACE := -race '-gcflags=modernc.org/...=-race=false'

# QUICK saves what no test needs: debug information in more than a hundred programs, and the
# part of go vet that go test runs, because make vet runs all of it.
QUICK := -vet=off '-ldflags=-s -w'

# WIDE has more packages under test at a time than there are cores, because they wait for
# most of their time.
WIDE = -p $$((2 * $$(getconf _NPROCESSORS_ONLN)))

# SCRATCH has the files of tests in memory, where there is room. What go test builds stays on the disk.
SCRATCH = GOTMPDIR=$${GOTMPDIR:-$${TMPDIR:-/tmp}} TMPDIR=$$(scripts/scratch.sh)

# VERSION is for those who package a release: without one the programs name the release
# that is being worked on and the revision that they were built from.
VERSION ?=
LDFLAGS  = $(if $(VERSION),-X main.version=$(VERSION))
PROGRAMS := swpd swp-client spec-vector-runner

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := bash
.SHELLFLAGS := -euo pipefail -c

##@ General

.PHONY: help
help: ## this list
	@awk 'BEGIN {FS = ":.*## "} \
	  /^##@ / {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-zA-Z0-9_%-]+:.*## / {printf "  %-26s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## the three programs, into bin/
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/...

.PHONY: completions
completions: build ## what shells complete, into bin/share as a package installs it
	@mkdir -p $(BIN)/share/bash-completion/completions $(BIN)/share/zsh/site-functions $(BIN)/share/fish/vendor_completions.d
	@for p in $(PROGRAMS); do \
	  $(BIN)/$$p completion bash >$(BIN)/share/bash-completion/completions/$$p; \
	  $(BIN)/$$p completion zsh >$(BIN)/share/zsh/site-functions/_$$p; \
	  $(BIN)/$$p completion fish >$(BIN)/share/fish/vendor_completions.d/$$p.fish; \
	done

.PHONY: man
man: build ## a manual page for each program and command, into bin/share/man/man1
	@rm -rf $(BIN)/share/man/man1
	@for p in $(PROGRAMS); do $(BIN)/$$p man $(BIN)/share/man/man1; done

.PHONY: site
site: ## the documents as web pages with a search, into bin/site/VERSION (dev); its tests follow each link
	cd tools/site && $(GO) test . && $(GO) run . -root ../.. -out '$(abspath $(BIN))/site' -version '$(or $(VERSION),dev)'

.PHONY: clean
clean: ## remove what was built; clean-artifacts removes reports
	rm -rf $(BIN) .demo

##@ Tests

# ALL is all packages, those whose tests take longest first, so that no core waits for the
# last of them. packages lists those of them that match a pattern, or with a flag -v those
# that do not.
ALL      := ./daemon ./test/... ./store/... ./cmd/... ./...
packages = $$($(GO) list $(ALL) | grep -E $(2) '^[^/]*/[^/]*/[^/]*/($(1))$$')

.PHONY: test
test: ## all tests, with leak checks, the race detector where it matters most; then what it cannot watch there, and the site of the documents
	$(SCRATCH) $(GO) test $(WIDE) $(QUICK) $(RACE) -timeout $(TEST_TIMEOUT) $(call packages,$(WATCHED)) | scripts/budget.sh
	$(SCRATCH) $(GO) test $(WIDE) $(QUICK) -timeout $(TEST_TIMEOUT) $(call packages,$(WATCHED),-v) | scripts/budget.sh
	$(SCRATCH) $(GO) test $(WIDE) $(QUICK) -timeout $(TEST_TIMEOUT) $$(scripts/tests-calling.sh 'Unwatched|Watched' $$($(GO) list -f '{{.Dir}}' $(call packages,$(WATCHED))))
	cd tools/site && $(GO) test ./...

# SLICE is which part of the tests test-long runs, 3/100 for the fourth of a hundred; empty
# for all at once. TIME bounds the tests of a slice and of test-release: those that have not
# finished then are printed.
SLICE ?=
TIME  ?= 3h

.PHONY: test-long
test-long: ## before a release: all tests under the race detector and in full length, hours; SLICE=K/N takes a part
ifeq ($(SLICE),)
	SWP_LONG=1 $(GO) test $(RACE) -timeout 3h ./...
else
	@selected=$$(GO='$(GO)' scripts/tests-slice.sh $(SLICE)) && SWP_LONG=1 GO='$(GO)' scripts/bounded.sh $(TIME) $(RACE) $$selected
endif

.PHONY: test-release
test-release: ## the tests of whole programs and documents that make test leaves out, in full length
	@SWP_LONG=1 GO='$(GO)' scripts/bounded.sh $(TIME) $$(scripts/tests-calling.sh Release $$($(GO) list -f '{{.Dir}}' ./...))

ROUNDS ?= 30
LOOPS  ?= 2
PKG    ?= ./...

.PHONY: flaky
flaky: ## hunt tests that depend on load: PKG (default ./...) ROUNDS times (30) beside LOOPS busy loops (2)
	GO='$(GO)' TESTFLAGS='$(TESTFLAGS)' scripts/flaky.sh $(ROUNDS) $(LOOPS) $(PKG)

.PHONY: test-page
test-page: ## the page of the admin listener in Chromium, and for accessibility; skipped without Chromium or npm
	scripts/page-test.sh

.PHONY: page-screenshots
page-screenshots: ## test-page, and its screenshots for the operator guide into docs
	SWP_DOCS='$(abspath docs)' scripts/page-test.sh

.PHONY: test-race
test-race: test ## the same, under the name of the draft

.PHONY: test-short
test-short: ## all tests without the race detector
	$(SCRATCH) $(GO) test $(WIDE) $(QUICK) -timeout $(TEST_TIMEOUT) $(ALL)

.PHONY: test-32bit
test-32bit: ## frame and envelope on a 32-bit build, where lengths could wrap
	GOARCH=386 CGO_ENABLED=0 $(GO) test ./frame ./e1 ./profiles/p1

.PHONY: fuzz
fuzz: ## every fuzz target in turn, FUZZ_TIME each (default 30s)
	@$(GO) test -list '^Fuzz' ./... | awk '/^Fuzz/ {name[n++] = $$1} /^ok/ {for (i = 0; i < n; i++) print $$2, name[i]; n = 0}' | \
	while read -r pkg name; do \
	  echo "== $$pkg $$name"; \
	  $(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZ_TIME) "$$pkg"; \
	done

##@ Source

.PHONY: fmt
fmt: ## format
	$(LINT) fmt

.PHONY: vet
vet: ## go vet, also of test/bench, test/deploy and tools/site, which are separate modules
	$(GO) vet ./...
	cd test/bench && $(GO) vet ./...
	cd test/deploy && $(GO) vet ./...
	cd tools/site && $(GO) vet ./...

.PHONY: lint
lint: ## golangci-lint and buf lint; the first run builds them, which takes minutes
	$(LINT) run ./...
	$(BUF) lint

.PHONY: generate
generate: ## the messages of the profiles and the tables of their fields in docs/wire.md, from the schemas in proto/
	$(GO) run ./tools/p1gen

.PHONY: check-generate
check-generate: generate ## generate, and want nothing to change
	git diff --exit-code -- profiles docs/wire.md
	@test -z "$$(git status --porcelain -- profiles)" || { git status --short -- profiles; exit 1; }

.PHONY: ci
ci: build vet test test-32bit conformance-core vectors-core-strict ## what has to pass

-include mk/*.mk
