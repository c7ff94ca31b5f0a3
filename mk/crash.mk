SOAK ?= 15m

# SEED repeats the choices of an earlier soak, which has printed it: who is killed and when,
# what is published. What the scheduler decides is not repeated.
SEED ?=

CRASH = SWP_CRASH=$(SOAK) SWP_CRASH_SEED=$(SEED) $(GO) test -count 1 -timeout 24h -v

##@ Crash

.PHONY: soak
soak: ## kill swpd at random moments under load for SOAK (15m), and cut the power of its disk; SEED=N repeats the choices
	$(CRASH) ./test/crash

.PHONY: soak-relay
soak-relay: ## kill publishers, consumers and swpd at random moments under load for SOAK
	$(CRASH) -run ST01Relay ./test/crash

.PHONY: soak-federation
soak-federation: ## two organisations for SOAK: kill both swpd and all clients at random moments, and disturb their link
	$(CRASH) -run ST01Federation ./test/crash

.PHONY: soak-cluster
soak-cluster: ## several swpd on one PostgreSQL for SOAK: kill, drain, suspend and cut off the active one, kill and fail over the database
	$(CRASH) -run ST01Nodes ./test/crash

# KILLS is the number of kills, and of drains, of the measurement.
KILLS ?= 50

.PHONY: failover
failover: ## measure how long a client of several swpd has no acknowledged write, over KILLS (50) kills and drains
	SWP_CRASH_KILLS=$(KILLS) $(GO) test -count 1 -timeout 24h -v -run TestFailover ./test/crash
