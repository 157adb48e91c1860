# What a person would guess: make, make test, make lint, make race, make bench, make fuzz.
GO ?= go
TOOL = $(GO) tool -modfile=.ci/tools.mod
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
FUZZTIME ?= 10s

.PHONY: build test lint race bench fuzz clean

build: ## one static binary, no C compiler needed
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o ribwarp ./cmd/ribwarp

test: ## all tests; those that want real data or BIRD say so when they skip
	$(GO) test ./...

lint:
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt -w these: $$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(TOOL) staticcheck ./...
	$(TOOL) depguard ./...

race: ## needs a C compiler; -short leaves out tests whose point is a full table's size
	$(GO) test -race -short ./...

bench: ## every benchmark once; for figures see docs/benchmarks/README.md
	$(GO) test -run '^$$' -bench . -benchtime=1x ./...

fuzz: ## every fuzz target for FUZZTIME
	@set -e; for pkg in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "== $$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

clean:
	rm -f ribwarp
