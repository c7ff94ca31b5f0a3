##@ Containers

HELM  := $(call TOOL,helm)
IMAGE ?= swpd
# ENGINE builds images: docker, podman or buildah.
ENGINE ?= docker

.PHONY: image
image: ## an image of swpd and swp-client from deploy/Dockerfile, by ENGINE (docker)
	$(ENGINE) build -f deploy/Dockerfile --build-arg VERSION='$(VERSION)' -t '$(IMAGE)' .

.PHONY: lint-image
lint-image: ## deploy/Dockerfile by dockerfilelint from npm; skipped without npm
	@command -v npm >/dev/null || { echo "lint-image: skipped: npm is not installed"; exit 0; }; \
	  npm exec --yes --package=dockerfilelint@1.8.0 -- dockerfilelint deploy/Dockerfile

.PHONY: chart
chart: ## lint deploy/helm, and test what it renders and deploy/compose; the first run builds helm, which takes minutes
	@for values in deploy/helm/swpd/ci/*.yaml; do $(HELM) lint --strict --kube-version v1.37.0 deploy/helm/swpd --values $$values || exit; done
	cd test/deploy && $(GO) vet ./... && $(GO) test ./...
