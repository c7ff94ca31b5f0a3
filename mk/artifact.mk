ARTIFACT_SIZE ?= 2147483648

##@ Artifacts

.PHONY: artifact-2g
artifact-2g: ## move an artifact of 2 GiB over TLS while clients and swpd are killed; memory stays flat
	SWP_ARTIFACT_SIZE=$(ARTIFACT_SIZE) $(GO) test -count 1 -timeout 30m -v -run TestPR10ALargeArtifactSurvivesKills ./test/e2e
