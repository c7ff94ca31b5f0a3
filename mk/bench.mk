# Benchmarks: test/bench/ is a module of its own, because gRPC and NATS are no
# dependencies of the product. Figures of a shared machine drift; only ratios
# taken in one run count.

BENCH_JSON ?= artifacts/bench/bench.json
BENCH_ARGS ?=
BENCH      := $(BIN)/swp-bench

##@ Benchmarks

.PHONY: bench
bench: build swp-bench ## swpd beside raw TLS, raw QUIC, gRPC and NATS, and two swpd beside one; BENCH_ARGS=-h lists the flags, under 10 minutes
	$(BENCH) -swpd $(BIN)/swpd -out $(BENCH_JSON) $(BENCH_ARGS)

.PHONY: bench-quick
bench-quick: build swp-bench ## only the loads with a promise, under 2 minutes
	$(BENCH) -quick -swpd $(BIN)/swpd -out $(BENCH_JSON) $(BENCH_ARGS)

.PHONY: bench-guard
bench-guard: build swp-bench ## processor time of the main loads, as ratios to raw TLS, held against test/bench/guard.json, under 3 minutes
	$(BENCH) -guard test/bench/guard.json -swpd $(BIN)/swpd $(BENCH_ARGS)

.PHONY: bench-growth
bench-growth: build swp-bench ## rates and memory as backlogs of events and deliveries grow to 10,000,000, under 30 minutes; plots in artifacts/bench
	$(BENCH) -growth -swpd $(BIN)/swpd -out artifacts/bench/growth.json $(BENCH_ARGS)

.PHONY: bench-cluster
bench-cluster: build swp-bench ## durable publish and RPC echo: embedded store, one and three nodes on PostgreSQL, the hop between nodes; under 3 minutes
	$(BENCH) -parts cluster -swpd $(BIN)/swpd -out artifacts/bench/cluster.json $(BENCH_ARGS)

.PHONY: bench-micro
bench-micro: ## frame, E1, A2A-SDL and SLIP beside protobuf and JSON, and the product's own Go benchmarks
	cd test/bench && $(GO) test -run '^$$' -bench . ./codec ./language
	$(GO) test -run '^$$' -bench . -benchmem ./frame ./e1 ./profiles/p1 ./transport/endpoint ./sdl/...

.PHONY: bench-test
bench-test: ## the tests of the benchmark itself
	cd test/bench && $(GO) vet ./... && $(GO) test -race ./...

.PHONY: bench-tokens
bench-tokens: ## compare the table of tokens in docs/profile-slip.md with a new count
	cd test/bench && $(GO) test -count=1 ./tokens

.PHONY: bench-generate
bench-generate: ## code from the schemas in test/bench/
	buf="$$($(GO) tool -n -modfile=tools/buf/go.mod buf)" && cd test/bench && "$$buf" generate

.PHONY: swp-bench
swp-bench:
	cd test/bench && $(GO) build -trimpath -o ../../$(BENCH) ./cmd/swp-bench
