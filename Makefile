# What a person would guess: make, make test, make lint, make race, make bench, make fuzz.
# For GPUs: make cuda, make gpu-tests; after changing a kernel make generate.
GO ?= go
TOOL = $(GO) tool -modfile=.ci/tools.mod
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
FUZZTIME ?= 10s
# What made the PTX in this repository. A newer compiler asks for newer drivers.
NVCC_RELEASE = 11.8
GET_CUDA = on Debian add contrib and non-free to the sources, then apt-get install nvidia-cuda-toolkit

.PHONY: build cuda test lint race bench fuzz generate generate-check gpu-tests clean

build: ## one static binary, no C compiler needed
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o ribwarp ./cmd/ribwarp

cuda: ## ribwarp-cuda, which needs an NVIDIA driver to run; to build it no GPU and no nvcc
	@echo '#include <cuda.h>' | $${CC:-cc} -I/usr/local/cuda/include -E - >/dev/null || { \
		echo "make cuda needs a C compiler and CUDA's headers: $(GET_CUDA)"; exit 1; }
	CGO_ENABLED=1 $(GO) build -tags cuda -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o ribwarp-cuda ./cmd/ribwarp

test: ## all tests; those that want real data or BIRD say so when they skip
	$(GO) test ./...

lint: ## GOFLAGS=-tags=cuda for what only ribwarp-cuda has
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt -w these: $$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(TOOL) staticcheck ./...
	$(TOOL) depguard ./...

race: ## needs a C compiler; -short leaves out tests whose point is a full table's size
	$(GO) test -race -short ./...

bench: ## every benchmark once; for figures see docs/benchmarks/README.md
	TUNE_LISTS=2 TUNE_ROUNDS=1 TUNE_FINAL=1 $(GO) test -run '^$$' -bench . -benchtime=1x ./...

fuzz: ## every fuzz target for FUZZTIME
	@set -e; for pkg in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "== $$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

generate: ## the PTX of every .cu file
	@nvcc --version | grep -q 'release $(NVCC_RELEASE),' || { \
		echo "make generate needs nvcc $(NVCC_RELEASE): $(GET_CUDA)"; exit 1; }
	$(GO) generate ./kernels/...

generate-check: generate ## is the PTX in the repository what nvcc makes of its .cu file?
	@changed=$$(git status --porcelain -- 'kernels/*.ptx'); if [ -n "$$changed" ]; then \
		echo "these are not as committed, run make generate and commit them:"; echo "$$changed"; exit 1; fi

gpu-tests: build cuda ## the folder gpu-tests: copy it to a machine with a GPU and start run.sh there
	GO="$(GO)" .ci/gpu-tests.sh

clean:
	rm -rf ribwarp ribwarp-cuda gpu-tests
