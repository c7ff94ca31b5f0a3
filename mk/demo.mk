##@ Demonstration

.PHONY: demo
demo: build ## run a real MCP server behind swpd and call it over TLS and QUIC
	@mkdir -p $(BIN)/examples
	$(GO) build -trimpath -o $(BIN)/examples/ ./examples/mcp-modern ./examples/mcp-legacy
	@scripts/demo.sh $(abspath $(BIN))

.PHONY: demo-agents
demo-agents: build ## a task that survives the death of its sender and of swpd
	@scripts/agents.sh $(abspath $(BIN))

.PHONY: demo-sdl
demo-sdl: build ## a signed and encrypted request, answered by an MCP tool once and never again
	@mkdir -p $(BIN)/examples
	$(GO) build -trimpath -o $(BIN)/examples/ ./examples/mcp-modern
	@scripts/sdl.sh $(abspath $(BIN))
