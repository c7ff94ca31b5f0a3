A2A_JS := .demo/a2a-js

##@ A2A

.PHONY: a2a-js
a2a-js: $(A2A_JS)/node_modules/@a2a-js/sdk/package.json ## a client written with @a2a-js/sdk reaches an agent behind two swpd (needs node and npm)
	SWP_A2A_JS='$(CURDIR)/$(A2A_JS)' $(GO) test -count=1 -v -run TestA2AClientInJavaScript ./test/e2e

$(A2A_JS)/node_modules/@a2a-js/sdk/package.json:
	npm install --silent --no-save --no-fund --no-audit --prefix $(A2A_JS) @a2a-js/sdk@1.3.0
