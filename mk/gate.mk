# The conformance suites of MCP, each at the version that testdata/gate.txt is about, and the
# node that they need.
GATE       := .demo/gate
GATE_SUITES := 0.1.16 0.2.0-alpha.12

##@ Gate

.PHONY: gate
gate: ## conformance suites of MCP, and SDKs of A2A, directly and through one and two swpd: differences need a reason (needs npm)
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory gate-run; \
	else echo 'gate: skipped: npm is not in PATH, and installs the suites'; fi

.PHONY: gate-run
gate-run: $(GATE)/node_modules/node/package.json $(GATE_SUITES:%=$(GATE)/%/node_modules/@modelcontextprotocol/conformance/package.json) a2a-js
	SWP_GATE='$(CURDIR)/$(GATE)' $(GO) test -count=1 -v -timeout 60m -run '^TestGate$$' ./test/e2e

$(GATE)/node_modules/node/package.json:
	npm install --silent --no-save --no-fund --no-audit --prefix $(GATE) node@22

$(GATE)/%/node_modules/@modelcontextprotocol/conformance/package.json:
	npm install --silent --no-save --no-fund --no-audit --prefix $(GATE)/$* @modelcontextprotocol/conformance@$*

.PHONY: tck
tck: ## the TCK of A2A, directly and through one and two swpd; TCK=DIR is a copy of github.com/a2aproject/a2a-tck
	@test -f '$(TCK)/run_tck.py' || { echo 'tck: $(or $(TCK),TCK) has no run_tck.py: clone https://github.com/a2aproject/a2a-tck, and name it with TCK=DIR' >&2; exit 2; }
	@python3 -c 'import pytest, httpx, jsonschema' || { echo 'tck: python3 lacks a package of the TCK; Debian has python3-pytest, python3-httpx and python3-jsonschema' >&2; exit 2; }
	SWP_TCK='$(abspath $(TCK))' $(GO) test -count=1 -v -timeout 60m -run '^TestTCK$$' ./test/e2e
