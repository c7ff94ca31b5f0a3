# Conformance: vectors, reports and the bundle for publication. Names of targets
# and variables are those of the public spec kit (docs/conformance.md).
# SPEC_VECTOR_ARGS goes to the runner.

SPEC_VECTOR_ARGS ?=
CORE_PATTERN     ?= conformance/vectors/core_*.json
ALL_PATTERN      ?=
CONFORMANCE_DIR  ?= artifacts/conformance

CORE_DEFAULT_JSON ?= $(CONFORMANCE_DIR)/core.default.json
CORE_STRICT_JSON  ?= $(CONFORMANCE_DIR)/core.strict.json
ALL_DEFAULT_JSON  ?= $(CONFORMANCE_DIR)/all.default.json
ALL_STRICT_JSON   ?= $(CONFORMANCE_DIR)/all.strict.json

CONFORMANCE_BUNDLE ?= $(CONFORMANCE_DIR)/swp-conformance-bundle.tar.gz
CONFORMANCE_CONFIG ?=
CONFORMANCE_DOCS   := $(sort $(wildcard docs/*.md docs/*.svg docs/*.png)) $(wildcard vectors/*.evidence.md)
PACK               := $(GO) run ./conformance/pack -dir '$(CONFORMANCE_DIR)' -config '$(CONFORMANCE_CONFIG)' -version '$(or $(VERSION),$(shell git describe --tags --always --dirty 2>/dev/null || echo unknown))' \
  -core.default '$(CORE_DEFAULT_JSON)' -core.strict '$(CORE_STRICT_JSON)' -all.default '$(ALL_DEFAULT_JSON)' -all.strict '$(ALL_STRICT_JSON)'

ALL_ARGS          := $(if $(ALL_PATTERN),-pattern '$(ALL_PATTERN)')
VECTOR_NAMESPACES := core e1 s1 mcp a2a agdisc tooldisc rpc events artifact cred policyhint state obs relay
PROVISIONAL       := sdl slip
VECTOR_RUNNER     := $(BIN)/spec-vector-runner

##@ Conformance

.PHONY: vectors spec-vectors
vectors: vector-runner ## play the official vectors; vectors-core, vectors-sdl, vectors-slip … those of one namespace
	$(VECTOR_RUNNER) $(SPEC_VECTOR_ARGS)

spec-vectors: vectors ## the same

.PHONY: vectors-strict
vectors-strict: vector-runner ## the same with -no-fallback
	$(VECTOR_RUNNER) -no-fallback $(SPEC_VECTOR_ARGS)

# Vectors of provisional profiles are played when they are asked for by name.
NAMED_VECTORS := $(VECTOR_NAMESPACES) $(PROVISIONAL)

.PHONY: $(NAMED_VECTORS:%=vectors-%) $(NAMED_VECTORS:%=vectors-%-strict)
$(NAMED_VECTORS:%=vectors-%): vectors-%: vector-runner
	$(VECTOR_RUNNER) -pattern 'conformance/vectors/$*_*.json' $(SPEC_VECTOR_ARGS)

$(NAMED_VECTORS:%=vectors-%-strict): vectors-%-strict: vector-runner
	$(VECTOR_RUNNER) -no-fallback -pattern 'conformance/vectors/$*_*.json' $(SPEC_VECTOR_ARGS)

.PHONY: poc-vectors
poc-vectors: vector-runner ## the vectors in the poc_ form, with the lines of the kit's runner
	$(VECTOR_RUNNER) -poc

.PHONY: conformance-core
conformance-core: vector-runner ## core vectors, default and strict, with logs and JSON
	@mk/conformance.sh CORE default '$(CORE_DEFAULT_JSON)' '$(CONFORMANCE_DIR)' $(VECTOR_RUNNER) -pattern '$(CORE_PATTERN)'
	@mk/conformance.sh CORE strict '$(CORE_STRICT_JSON)' '$(CONFORMANCE_DIR)' $(VECTOR_RUNNER) -no-fallback -pattern '$(CORE_PATTERN)'

.PHONY: conformance-all
conformance-all: vector-runner ## all vectors, default and strict, with logs and JSON
	@mk/conformance.sh ALL default '$(ALL_DEFAULT_JSON)' '$(CONFORMANCE_DIR)' $(VECTOR_RUNNER) $(ALL_ARGS)
	@mk/conformance.sh ALL strict '$(ALL_STRICT_JSON)' '$(CONFORMANCE_DIR)' $(VECTOR_RUNNER) -no-fallback $(ALL_ARGS)

.PHONY: conformance-summary
conformance-summary: ## three lines about the core vectors
	@echo "SWP conformance (Core vectors) @ runner_git_sha=$$(git rev-parse HEAD 2>/dev/null || echo nogit)"
	@$(MAKE) --no-print-directory -s conformance-core

# Samples of the security events and verdicts of the S1 vectors, and of lifecycles.
SAMPLED_PATTERN := conformance/vectors/s1_*.json,conformance/vectors/a2a_*.json,conformance/vectors/rpc_*.json

.PHONY: conformance-samples
conformance-samples: vector-runner ## what the endpoint reports in the S1 vectors and in lifecycles, a line for each vector
	@mkdir -p '$(CONFORMANCE_DIR)'
	@$(VECTOR_RUNNER) -no-fallback -pattern '$(SAMPLED_PATTERN)' -samples '$(CONFORMANCE_DIR)/samples.jsonl' >/dev/null

.PHONY: conformance-pack
conformance-pack: conformance-core conformance-all conformance-samples ## reports, logs, documents and claims in one archive
	@$(PACK) -out '$(CONFORMANCE_BUNDLE)' $(CONFORMANCE_DOCS)

.PHONY: conformance-claims
conformance-claims: conformance-core conformance-all conformance-samples ## what these runs allow to be claimed, and why not the rest
	@$(PACK)

.PHONY: vector-runner
vector-runner:
	@$(GO) build -o $(VECTOR_RUNNER) ./cmd/spec-vector-runner

.PHONY: gen-vectors gen-c1-vectors gen-remaining-vectors
gen-vectors gen-c1-vectors gen-remaining-vectors: ## write vectors/ from its catalogue, all of it
	$(GO) run ./vectors/gen

.PHONY: check-vectors
check-vectors: gen-vectors ## generate the vectors, and want nothing to change
	git diff --exit-code -- vectors
	@test -z "$$(git status --porcelain -- vectors)" || { git status --short -- vectors; exit 1; }

check-generate: check-vectors

.PHONY: clean-artifacts
clean-artifacts: ## remove reports
	rm -rf '$(CONFORMANCE_DIR)'
