TUNNEL := .demo/tunnel
SUITE := $(TUNNEL)/node_modules/@modelcontextprotocol/conformance/dist/index.js

##@ Tunnel

.PHONY: tunnel
tunnel: $(SUITE) ## the conformance suite of MCP, directly and through two swpd, over TLS and QUIC (needs node and npm)
	SWP_NODE='$(CURDIR)/$(TUNNEL)/node_modules/.bin/node' SWP_MCP_CONFORMANCE='$(CURDIR)/$(SUITE)' \
		$(GO) test -count=1 -v -run TestTunnelIsTransparent ./test/e2e

$(SUITE):
	npm install --silent --no-save --no-fund --no-audit --prefix $(TUNNEL) node@22 @modelcontextprotocol/conformance@0.2.0-alpha.12
