# The demonstrations of the public spec kit, under its names and ports: make run-server in one
# terminal, run-gateway in another, then run-client and mcp-curl.

KIT         := .demo/kit
KIT_SERVER  := swp+tls://127.0.0.1:7777
KIT_GATEWAY := 127.0.0.1:8080
KIT_CLIENT  := $(BIN)/swp-client --identity $(KIT)/pki

# A POST of Streamable HTTP accepts both types, and names the version that it speaks.
KIT_CURL := curl -fsS -w '\n' http://$(KIT_GATEWAY)/mcp -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream'

.PHONY: run-server
run-server: $(KIT)/swpd.yaml ## swpd on port 7777 with an MCP server behind it
	$(BIN)/swpd run --config $(KIT)/swpd.yaml

.PHONY: $(KIT)/swpd.yaml
$(KIT)/swpd.yaml:
	@$(build-for) ./examples/mcp-modern
	@test -e $@ || { $(BIN)/swpd init --dir $(KIT) >/dev/null && \
	  printf 'mcp:\n  servers:\n    modern: {command: %s, default: true}\n' '$(abspath $(BIN))/mcp-modern' >>$@; }

.PHONY: run-client
run-client: ## call the MCP server behind run-server over TLS
	@$(build-for)
	$(KIT_CLIENT) ping -c 3 $(KIT_SERVER)
	$(KIT_CLIENT) mcp list $(KIT_SERVER)
	$(KIT_CLIENT) mcp call $(KIT_SERVER) echo text=hello

.PHONY: run-gateway
run-gateway: ## MCP over HTTP on port 8080, forwarded to run-server
	@$(build-for)
	$(KIT_CLIENT) mcp http $(KIT_SERVER) --listen $(KIT_GATEWAY)

.PHONY: mcp-curl
mcp-curl: ## a request by curl, over HTTP through run-gateway to the MCP server behind run-server
	$(KIT_CURL) -d '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"curl","version":"1"}}}'
