# Caisson: the commands that people and CI run. `make` alone lists them.

CONTROLLER_GEN := sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0
GOLANGCI_LINT  := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

GO   ?= go
BIN  := bin
# The Go modules of the workspace, as patterns that `go test` takes.
ALL  := ./... ./abi/... ./guest-sdk/... ./cmd/devcluster/...
# What the race detector is run over: everything but the packages that only start other
# programs, or that link Helm or a control plane and take minutes to compile for it.
RACE := ./abi/... ./guest-sdk/... ./host/scope/... ./host/provisioner/... ./host/capability/... ./host/plan/... \
        ./host/sandbox/... ./host/registry/... ./host/controller/... ./cmd/caisson/internal/tree/... ./cmd/caisson/internal/follow/... ./cmd/caisson/internal/devenv/...
FUZZTIME ?= 20s
# One program of the tests is a control plane with half a gigabyte; two packages at a
# time keep a laptop responsive.
TESTFLAGS ?= -p 2 -timeout 30m

.DEFAULT_GOAL := help
.PHONY: help demo build modules examples examples-tools test test-pdks test-race test-all test-diff test-faults attack fuzz properties bench generate fmt lint verify clean

##@ Try it
help: ## List the commands
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## Bring up a platform on two local control planes, watch it, take it down (DEMO_KEEP=1 leaves it running)
	@printf '    0.0s  building the caisson CLI\n'
	@$(GO) build -o $(BIN)/caisson ./cmd/caisson
	@exec $(BIN)/caisson dev demo

##@ Build
build: ## Build the CLI, the operator, the worker and the local control plane into bin/
	$(GO) build -o $(BIN)/ ./cmd/caisson ./cmd/caisson-operator ./cmd/devcluster
	CGO_ENABLED=0 $(GO) build -o $(BIN)/ ./cmd/caisson-worker # threads of C cannot be confined

modules: build ## Build the first-party modules into bin/modules/
	@mkdir -p $(BIN)/modules
	@for m in cilium storage ingress; do $(BIN)/caisson module build ./modules/$$m -o $(BIN)/modules/$$m.wasm || exit 1; done

examples: ## Build the modules of examples/ in every language (it says which compiler is missing)
	examples/build.sh

examples-tools: ## Install the compilers that the examples need, on Debian as root
	examples/build.sh install

##@ Test
test: ## Unit, conformance and integration tests, the latter against local control planes
	$(GO) test $(TESTFLAGS) $(ALL)

test-race: ## The tests of everything that is shared between goroutines, under the race detector (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -race $(TESTFLAGS) $(RACE)

test-pdks: examples ## Hold modules in Go, C, Rust, AssemblyScript and the shapes of other PDKs to the ABI
	$(GO) test -tags pdks -run 'TestConformancePDKs' -count 1 ./host/sandbox

test-all: test test-pdks test-race test-diff fuzz properties ## Everything that can be tested here

test-diff: ## Give the same modules to extism/go-sdk and to the sandbox, and compare (a Go module of its own; a minute)
	$(GO) test -count=1 -timeout 15m ./host/sandbox/bench/...

test-faults: ## Let every call of a platform fail in every way, and compare what it ends with (minutes; FAULTS_LANES=4 side by side)
	FAULTS_RUNS=$(or $(FAULTS_RUNS),all) $(GO) test -count=1 -timeout 3h -v -run '^TestFaults$$' ./host/faults

attack: ## Let hostile modules loose on an operator that runs, and write host/sandbox/ATTACKS.md (minutes; ATTACKFLAGS="-o json", "-only REGEXP" or "-slow=false")
	$(GO) run ./host/sandbox/attacks -write host/sandbox/ATTACKS.md $(ATTACKFLAGS)

fuzz: ## Run each fuzz target for FUZZTIME
	@grep -rl '^func Fuzz' --include=*_test.go . | while read -r file; do \
	  dir=$$(dirname $$file); \
	  for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' $$file); do \
	    echo "fuzz $$dir $$target"; (cd $$dir && $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) .) || exit 1; \
	  done; \
	done

PROPERTYCHECKS ?= 3000
properties: ## Hold PROPERTYCHECKS random trees per round and kind to the model of the algebra (a minute)
	$(GO) test -run TestProperties ./host/provisioner -rapid.checks=$(PROPERTYCHECKS)

bench: ## Measure the sandbox beside go-plugin and go-sdk, and write host/sandbox/BENCHMARKS.md (BENCH_COUNT=10 rounds, BENCH_MODULES=1000)
	$(GO) run ./host/sandbox/bench

.PHONY: bench-scale
SCALE ?= 100,1000,1000/0,5000/0
bench-scale: ## Measure how the operator grows with the number of Stacks, for SCALE (an hour), into host/controller/SCALE.md
	$(GO) run ./host/internal/benchscale -n $(SCALE) -write host/controller/SCALE.md

##@ Keep it right
generate: ## Generate deepcopy functions, CRDs and the JSON Schemas of the ABI
	cd abi && $(GO) run ./internal/schema/generate
	$(GO) run $(CONTROLLER_GEN) object crd:crdVersions=v1 paths=./host/api/v1alpha1/... output:crd:artifacts:config=deploy/crds
	$(GO) run $(CONTROLLER_GEN) object crd:crdVersions=v1 paths=./examples/embed/api/... output:crd:artifacts:config=examples/embed/deploy

fmt: ## Format the code
	gofmt -w abi cmd examples guest-sdk host modules

lint: ## Run the linters
	$(GO) run $(GOLANGCI_LINT) run ./...
	for module in abi guest-sdk cmd/devcluster; do (cd $$module && $(GO) run $(GOLANGCI_LINT) run ./...) || exit 1; done

verify: generate fmt ## Fail if generated files or formatting are not committed
	git diff --exit-code

clean: ## Remove what was built
	rm -rf $(BIN) .build
