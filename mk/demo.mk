##@ Demonstration

# build-for builds what a demonstration runs and nothing else, and says how far it is.
build-for = GO='$(GO)' LDFLAGS='$(LDFLAGS)' scripts/build.sh $(abspath $(BIN)) ./cmd/swpd ./cmd/swp-client

.PHONY: demo
demo: ## run a real MCP server behind swpd and call it over TLS and QUIC; then two organisations
	@$(build-for) ./examples/mcp-modern ./examples/mcp-legacy
	@scripts/demo.sh $(abspath $(BIN))
	@scripts/federation.sh $(abspath $(BIN))

.PHONY: demo-agents
demo-agents: ## a task that survives the death of its sender and of swpd
	@$(build-for)
	@scripts/agents.sh $(abspath $(BIN))

.PHONY: demo-federation
demo-federation: ## two organisations: each profile across both, one killed in the middle, their trails and a proof
	@$(build-for) ./examples/mcp-modern
	@scripts/federation.sh $(abspath $(BIN))

.PHONY: demo-cluster
demo-cluster: ## three swpd on PostgreSQL and their clients: nodes are killed and replaced, the database restarted, nothing is lost
	@$(build-for) ./test/cluster/clusterdemo
	@$(BIN)/clusterdemo -swpd $(BIN)/swpd

.PHONY: demo-sdl
demo-sdl: ## a signed and encrypted request, answered by an MCP tool once and never again
	@$(build-for) ./examples/mcp-modern
	@scripts/sdl.sh $(abspath $(BIN))

.PHONY: first-hour
first-hour: ## the first commands of README.md and docs/, as printed, with what they should say
	@$(build-for) ./examples/mcp-modern
	@scripts/first-hour.sh $(abspath $(BIN))
