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

.PHONY: package-test
package-test: packages ## install the .deb in a new Debian root, run it as the unit does, upgrade and purge it (root, debootstrap)
	@scripts/package-test.sh "$$(ls $(DIST)/*_$$($(GO) env GOARCH).deb)" $(PACKAGE_ROOT)

RELEASE ?=

.PHONY: upgrade-data
upgrade-data: ## at a release: keep its data directory, which all later releases must read; RELEASE=NAME
	@test -n '$(RELEASE)' || { echo 'upgrade-data: name the release, such as RELEASE=0.6.0' >&2; exit 2; }
	$(GO) test ./daemon -count 1 -run '^TestDataOutlivesARestart$$' -make-data '$(RELEASE)'
