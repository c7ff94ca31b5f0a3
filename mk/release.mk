##@ Release

NFPM      := $(call TOOL,nfpm)
CYCLONEDX := $(call TOOL,cyclonedx-gomod)
DIST      ?= $(BIN)/dist
ARCHES    ?= amd64 arm64

.PHONY: packages
packages: ## archives, .deb, .rpm, SBOMs and SHA256SUMS for ARCHES, into bin/dist; the same octets each time
	@GO='$(GO)' VERSION='$(VERSION)' NFPM='$(NFPM)' CYCLONEDX='$(CYCLONEDX)' scripts/packages.sh $(abspath $(DIST)) $(ARCHES)

.PHONY: reproducible
reproducible: ## build the packages twice, from two copies of HEAD at different paths, and compare them
	@GO='$(GO)' VERSION='$(VERSION)' scripts/reproducible.sh

# PREVIOUS is the commit whose package is upgraded from: the last release, or the last commit before
# there is one.
PREVIOUS ?= $(shell git describe --tags --abbrev=0 2>/dev/null || git rev-parse HEAD~1)

.PHONY: package-test
package-test: ## two Debian roots, partners, a call, an upgrade from PREVIOUS under traffic, backup, purge, restore (root, debootstrap)
	@$(build-for) ./examples/mcp-modern
	@work=$$(mktemp -d) && trap 'rm -rf "$$work"' EXIT && arch=$$($(GO) env GOARCH) && \
	git clone -q . "$$work/previous" && git -C "$$work/previous" checkout -q $(PREVIOUS) && \
	$(MAKE) -s -C "$$work/previous" packages ARCHES=$$arch DIST="$$work/dist.previous" && $(MAKE) -s packages ARCHES=$$arch DIST="$$work/dist" && \
	scripts/package-test.sh "$$work"/dist/*.deb "$$work"/dist.previous/*.deb $(abspath $(BIN))/mcp-modern $(PACKAGE_ROOT)

.PHONY: test-upgrade
test-upgrade: ## upgrade three nodes on PostgreSQL from PREVIOUS, one after the other, while clients work: no error, nothing lost
	@$(build-for) ./test/cluster/clusterdemo
	@work=$$(mktemp -d) && trap 'rm -rf "$$work"' EXIT && \
	git describe --tags --abbrev=0 >/dev/null 2>&1 || echo 'there is no tag yet' && \
	git clone -q . "$$work/previous" && git -C "$$work/previous" checkout -q $(PREVIOUS) && \
	echo "the previous version is $$(git log -1 --format='%h, %s' $(PREVIOUS))" && \
	$(GO) build -C "$$work/previous" -o "$$work/swpd" ./cmd/swpd && \
	$(BIN)/clusterdemo -swpd $(BIN)/swpd -previous "$$work/swpd"

RELEASE ?=

.PHONY: upgrade-data
upgrade-data: ## at a release: keep its data directory, which all later releases must read; RELEASE=NAME
	@test -n '$(RELEASE)' || { echo 'upgrade-data: name the release, such as RELEASE=0.6.0' >&2; exit 2; }
	$(GO) test ./daemon -count 1 -run '^TestDataOutlivesARestart$$' -make-data '$(RELEASE)'
