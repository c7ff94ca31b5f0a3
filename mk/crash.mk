SOAK ?= 15m

##@ Crash

.PHONY: soak
soak: ## kill swpd at random moments under load for SOAK (15m), and cut the power of its disk
	SWP_CRASH=$(SOAK) $(GO) test -count 1 -timeout 24h -v ./test/crash

.PHONY: soak-relay
soak-relay: ## kill publishers, consumers and swpd at random moments under load for SOAK
	SWP_CRASH=$(SOAK) $(GO) test -count 1 -timeout 24h -v -run ST01Relay ./test/crash
