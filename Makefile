# `make` or `make help` lists the targets. All of them work from a fresh clone; `make deps` installs what they need.

SHELL := /usr/bin/env bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# Tools, by exact version; each is installed by `go install` when it is missing, for all clones on this machine.
TOOLS         := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/flashsale/$(shell go env GOVERSION)
GOLANGCI_LINT := $(TOOLS)/golangci-lint-v2.15.0
GOTESTSUM     := $(TOOLS)/gotestsum-v1.13.0
OAPI_CODEGEN  := $(TOOLS)/oapi-codegen-v2.8.2
ACTIONLINT    := $(TOOLS)/actionlint-v1.7.12
KO            := $(TOOLS)/ko-v0.19.1
HELM3         := $(TOOLS)/helm-v3.22.0
HELM4         := $(TOOLS)/helm-v4.3.1
KUBECONFORM   := $(TOOLS)/kubeconform-v0.8.0
BENCHSTAT     := $(TOOLS)/benchstat-v0.0.0-20260908200009-22c9c6c9d4da

# Without the paths of this clone in programs, all clones on a machine share compiled packages.
export GOFLAGS := -trimpath $(filter-out -trimpath,$(shell go env GOFLAGS))

FUZZTIME ?= 30s
PKG      ?= work
SEEDS    ?= 5000
FIRST    ?= 1
COMPLETE ?= true
RUNS     ?= 1
ROUNDS   ?= 60
CALLS    ?= 100000

.PHONY: help
help: ## Lists the targets
	@awk 'BEGIN { FS = ":.*## " } /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Try it
.PHONY: run demo
run: .bin ## Starts one process on http://127.0.0.1:8080, without any installation; Ctrl-C stops it
	@go build -o .bin/allinone ./services/allinone/cmd/allinone
	@exec .bin/allinone serve

demo: .bin ## Runs a whole sale (against make up or make run, or BASE_URL); fails unless every count is right
	@go build -o .bin/flashctl ./flashctl/cmd/flashctl
	@.bin/flashctl demo

##@ Dependencies and services on this machine
.PHONY: deps up down status logs
deps: ## Installs MariaDB, Redis, nginx, a JRE and RocketMQ's jars, if missing
	@scripts/dev/deps

up: deps .bin ## Starts MariaDB, Redis, RocketMQ, the three services and the edge on http://127.0.0.1:8090, if they are down
	@scripts/dev/dependencies up
	@scripts/dev/services up

down: ## Stops them, the edge first; keeps the data in .run
	@scripts/dev/services down
	@scripts/dev/dependencies down

status: ## Shows what runs, and on which port
	@rc=0; scripts/dev/dependencies status || rc=1; scripts/dev/services status || rc=1; exit $$rc

logs: ## Prints the last lines of every log
	@scripts/dev/services logs
	@scripts/dev/dependencies logs

##@ Kubernetes
.PHONY: images chart-test chart-proof chart-tools cluster-prepare cluster-test cluster-proof
images: $(KO) ## Builds container images of all programs into dist/images.tar (settings: see scripts/images)
	@scripts/images $(KO)

chart-test: $(HELM3) $(KUBECONFORM) ## Tests the chart as Helm 3 renders it: schemas, rules, wrong values
	@scripts/dev/deps chart
	@cd test/chart && go test -count=1 -timeout 20m ./...

chart-proof: $(HELM3) $(HELM4) $(KUBECONFORM) ## The same with Helm 4; compares both results
	@scripts/dev/deps chart
	@go test -count=1 -timeout 20m ./test/proof/chart

cluster-prepare: $(KO) $(HELM3) ## Starts the cluster and loads the images, ahead of make cluster-test
	@scripts/cluster/prepare $(KO)

cluster-test: $(KO) $(HELM3) ## Tests the chart on a real cluster: install, a sale, one trace, an upgrade during a sale
	@scripts/cluster/test $(KO) $(HELM3)

cluster-proof: $(KO) $(HELM3) $(HELM4) ## cluster-test, then scaling, rollback, kills and uninstall during sales, and Helm 4
	@scripts/cluster/test $(KO) $(HELM3) $(HELM4)

.PHONY: lint-tools test-tools
lint-tools: test-tools $(GOLANGCI_LINT) $(OAPI_CODEGEN) $(ACTIONLINT) $(HELM3) $(KUBECONFORM)
test-tools: $(GOTESTSUM)

HELMS ?= 3
chart-tools: $(KUBECONFORM) $(foreach version,$(HELMS),$(HELM$(version)))
	@echo $^

##@ Prove it
.PHONY: ci proof test web-test sim sim-mutants trouble storm fuzz border border-mutants
test: deps $(GOTESTSUM) ## Runs all tests but those of make proof (PKG=./pkg/lock for one package, RACE=all for all with the race detector)
	@RACE=$(RACE) scripts/dev/with-dependencies scripts/dev/test $(GOTESTSUM) $(PKG)

web-test: ## Tests the pages in Chromium
	@scripts/dev/deps web
	@scripts/dev/web test

sim: ## Simulates SEEDS (5000) sales with random faults, from seed FIRST (1); COMPLETE=false only lists points not hit
	@set -o pipefail; GOGC=400 go test ./test/sim -count=1 -run '^TestSim$$' -timeout 60m -v -seeds $(SEEDS) -first $(FIRST) -complete=$(COMPLETE) | grep -v -e '^=== ' -e '--- PASS'

sim-mutants: deps ## Breaks the services in some hundred ways, one at a time; the simulation must detect each
	@REDIS_ADDRS=- ROCKETMQ_NAMESRV=- scripts/dev/with-dependencies go run ./test/sim/mutants

trouble: deps ## Tests sales while dependencies and links fail, Redis fails over or is full, or the system is upgraded or restored, some 25 min
	@scripts/dev/with-dependencies go test ./test/proof/trouble -count=1 -timeout 60m -v
	@scripts/restore-drill

storm: deps ## Sells 10,000 units while every process is killed twice, RUNS (1) times, 8 min each; STORM_SEED repeats one
	@go test ./test/proof/storm -count=$(RUNS) -run '^TestStorm$$' -timeout $$(($(RUNS) * 25))m -v

fuzz: ## Runs every fuzz target for FUZZTIME (30s)
	@grep -rlE '^func Fuzz' --include='*_test.go' pkg services flashctl | while read -r file; do \
	  for name in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*).*/\1/p' "$$file"); do \
	    go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "./$$(dirname "$$file")" || exit 1; \
	  done; \
	done

border: deps ## Makes CALLS (100000) random calls of two merchants and an operator; BORDER_SEED repeats a run
	@REDIS_ADDRS=- ROCKETMQ_NAMESRV=- scripts/dev/with-dependencies go test ./services/inventory -count=1 -v -timeout 45m \
	  -run '^TestMerchantsAreSeparate$$' -border.calls=$(CALLS) -rapid.seed=$(or $(BORDER_SEED),0)

border-mutants: deps ## Removes one check of a merchant's border at a time; the random calls or a test must detect each
	@REDIS_ADDRS=- ROCKETMQ_NAMESRV=- scripts/dev/with-dependencies go run ./test/sim/mutants -set border

ci: ## Runs what CI runs and prints a table of its steps (LANE=static, system, cluster or web for one lane)
	@scripts/ci/run $(LANE)

proof: ## Shows which long lanes are green on this commit; LANE=sim, mutants, race, trouble, storm, cluster or fuzz runs one
	@scripts/ci/proof $(LANE)

##@ Work on it
.PHONY: build web fairness bench pgo bench-go bench-compare bench-ratelimit lint fmt generate clean
build: .bin ## Builds every program into .bin
	@for main in services/*/cmd/* flashctl/cmd/*; do go build -o .bin/ "./$$main" || exit 1; done

web: ## Builds the pages into web/dist
	@scripts/dev/deps web
	@scripts/dev/web build

bench: deps .bin ## Measures the figures of docs/benchmarks.md (BENCH="--only refused" for one section, BENCH_BEFORE=<commit>)
	@scripts/dev/bench $(BENCH)

fairness: ## Runs the population model and writes its tables into docs/fairness.md, some minutes
	@cd test && go run ./fairness/cmd/fairness -write ../docs/fairness.md -small fairness/testdata/small.txt

pgo: deps .bin ## Records new profiles of seckill for Go's compiler, some 5 min
	@scripts/dev/pgo

bench-go: deps ## Runs the Go benchmarks (PKG=./pkg/stockgate/... for some)
	@scripts/dev/with-dependencies go test -run '^$$' -bench . -benchmem -p 1 $(PKG)

bench-compare: deps $(BENCHSTAT) ## Compares the Go benchmarks with those of another commit, some 8 min (BASE=<commit>, PKG="pkg/stockgate ...")
	@scripts/dev/with-dependencies scripts/dev/bench-compare $(BENCHSTAT) $(or $(BASE),HEAD~1) $(PKG:work=)

bench-ratelimit: deps .bin ## Compares pkg/ratelimit with other limiters and a bare script (ROUNDS=60), some 3 min
	@go build -o .bin/bench-ratelimit ./test/bench-ratelimit
	@MYSQL_DSN=- ROCKETMQ_NAMESRV=- scripts/dev/with-dependencies .bin/bench-ratelimit -rounds $(ROUNDS)

lint: $(GOLANGCI_LINT) $(OAPI_CODEGEN) $(ACTIONLINT) $(HELM3) ## Runs linters and checks format, go.mod, generated code, shell scripts, workflows, links and words
	@scripts/dev/deps lint
	@scripts/dev/lint $(GOLANGCI_LINT) $(OAPI_CODEGEN) $(ACTIONLINT) $(HELM3)

fmt: $(GOLANGCI_LINT) ## Formats all Go code
	@$(GOLANGCI_LINT) fmt $$(go list -f '{{.Dir}}/...' -m)

generate: $(OAPI_CODEGEN) $(HELM3) ## Generates Go code from the OpenAPI files, the chart's table of values, and the edge's configuration
	@scripts/dev/generate $(OAPI_CODEGEN)
	@cd test/chart && go run ./cmd/values -write ../../docs/kubernetes.md
	@scripts/dev/edge-conf $(HELM3)

clean: ## Stops every process of this folder and deletes all builds and data
	@[ ! -e .run/cluster/started ] || scripts/cluster/stop
	@for set in "$${RUN_DIR:-.run}" .run/*; do [ ! -d "$$set" ] || { RUN_DIR=$$set scripts/dev/services kill && RUN_DIR=$$set scripts/dev/dependencies kill; } || exit 1; done
	@rm -rf .bin .run dist

.bin:
	@mkdir -p .bin

$(GOLANGCI_LINT):
	$(call install,github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0)

$(GOTESTSUM):
	$(call install,gotest.tools/gotestsum@v1.13.0)

$(OAPI_CODEGEN):
	$(call install,github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2)

$(ACTIONLINT):
	$(call install,github.com/rhysd/actionlint/cmd/actionlint@v1.7.12)

$(KO):
	$(call install,github.com/google/ko@v0.19.1)

$(HELM3):
	$(call install,helm.sh/helm/v3/cmd/helm@v3.22.0)

$(HELM4):
	$(call install,helm.sh/helm/v4/cmd/helm@v4.3.1)

$(KUBECONFORM):
	$(call install,github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0)

$(BENCHSTAT):
	$(call install,golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da)

# install(module@version) builds a tool outside of the workspace, into a file named after its version, complete or not
# at all.
define install
	@echo "installing $(1)"
	@mkdir -p $(TOOLS) && dir=$$(mktemp -d -p $(TOOLS)) && for n in 1 2 3 4; do \
		if GOBIN=$$dir GOWORK=off go install $(1); then break; fi; test $$n -lt 4 && sleep 10 || { rm -r $$dir; exit 1; }; \
	done && mv $$dir/* $@ && rm -r $$dir
endef
