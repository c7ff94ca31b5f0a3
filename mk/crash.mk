SOAK ?= 15m

##@ Crash

.PHONY: soak
soak: ## kill swpd at random moments under load for SOAK (15m), and cut the power of its disk
	SWP_CRASH=$(SOAK) $(GO) test -count 1 -timeout 24h -v ./crash
