EVERYTHING := .demo/everything/node_modules/@modelcontextprotocol/server-everything/dist/index.js

.PHONY: everything
everything: $(EVERYTHING) ## the reference MCP server from npm behind swpd (needs node and npm)
	SWP_EVERYTHING='$(CURDIR)/$(EVERYTHING)' $(GO) test -count=1 -v -run TestServerEverything ./test/e2e

$(EVERYTHING):
	npm install --silent --no-save --no-fund --no-audit --prefix .demo/everything @modelcontextprotocol/server-everything
