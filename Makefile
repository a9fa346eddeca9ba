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
STRIPE_MOCK   := $(TOOLS)/stripe-mock-v0.203.0

# Without the paths of this clone in programs, all clones on a machine share compiled packages.
export GOFLAGS := -trimpath $(filter-out -trimpath,$(shell go env GOFLAGS))

HELMS    ?= 3
PKG      ?= work
SEEDS    ?= 5000
FIRST    ?= 1
COMPLETE ?= true
OF       ?= system
ROUNDS   ?= 60

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

up: deps .bin ## Starts MariaDB, Redis, RocketMQ, the three services and the edge on http://127.0.0.1:8090, if they are down (MONITORING=1 adds Prometheus)
	@scripts/dev/dependencies up
	@MONITORING=$(MONITORING) scripts/dev/services up
	@[ -z "$(MONITORING)" ] || { scripts/dev/deps monitoring && scripts/dev/monitoring up; }

down: ## Stops them, the edge first; keeps the data in .run
	@scripts/dev/monitoring down
	@scripts/dev/services down
	@scripts/dev/dependencies down

status: ## Shows what runs, and on which port
	@rc=0; scripts/dev/dependencies status || rc=1; scripts/dev/services status || rc=1; exit $$rc

logs: ## Prints the last lines of every log
	@scripts/dev/services logs
	@scripts/dev/dependencies logs

##@ Kubernetes
.PHONY: images chart-test cluster-test
images: $(KO) ## Builds container images of all programs into dist/images.tar (settings: see scripts/images)
	@scripts/images $(KO)

helms = $(foreach version,$(HELMS),$(HELM$(version)))
chart-test: $(helms) $(KUBECONFORM) ## Tests the chart as Helm 3 renders it: schemas, rules, wrong values (HELMS="3 4" compares with Helm 4)
	@scripts/dev/deps chart
	@go test -count=1 -timeout 20m $(if $(filter 4,$(HELMS)),./test/proof/chart,./test/chart/...)

cluster-test: $(KO) $(helms) ## Tests the chart on a real cluster: install, a sale, a trace, an upgrade (HELMS="3 4" adds kills, rollback, uninstall)
	@scripts/cluster/test $(KO) $(helms)

# Without a text for make help: scripts and tests call these.
.PHONY: cluster-prepare chart-tools lint-tools stripe-tools test-tools
cluster-prepare: $(KO) $(HELM3)
	@scripts/cluster/prepare $(KO)

lint-tools: test-tools $(GOLANGCI_LINT) $(OAPI_CODEGEN) $(ACTIONLINT) $(HELM3) $(KUBECONFORM)
test-tools: $(GOTESTSUM) $(STRIPE_MOCK)

chart-tools: $(KUBECONFORM) $(helms)
	@echo $^

stripe-tools: $(STRIPE_MOCK)
	@echo $^

##@ Prove it
.PHONY: ci proof test secured web-test sim
test: deps $(GOTESTSUM) ## Runs all tests but those of make proof (PKG=./pkg/lock for one package, RACE=all for all with the race detector)
	@RACE=$(RACE) scripts/dev/with-dependencies scripts/dev/test $(GOTESTSUM) $(PKG)

secured: deps ## Sells on Redis, MariaDB and RocketMQ that require TLS and rights: failovers, new passwords, wrong settings
	@scripts/dev/deps secured
	@go test -count=1 -timeout 15m -skip '^TestOnATaintedNode$$' ./test/proof/secured

web-test: ## Tests the pages in Chromium
	@scripts/dev/deps web
	@scripts/dev/web test

sim: ## Simulates SEEDS (5000) sales with random faults, from seed FIRST (1); COMPLETE=false only lists points not hit
	@set -o pipefail; GOGC=400 go test ./test/sim -count=1 -run '^TestSim$$' -timeout 60m -v -seeds $(SEEDS) -first $(FIRST) -complete=$(COMPLETE) | grep -v -e '^=== ' -e '--- PASS'

ci: ## Runs what CI runs and prints a table of its steps (LANE=static, system, cluster or web for one lane)
	@scripts/ci/run $(LANE)

proof: ## Shows which long lanes are green on this commit; LANE=sim, mutants, race, trouble, alarms, integration, secured, restore, kills, cluster or fuzz runs one
	@scripts/ci/proof $(LANE)

##@ Work on it
.PHONY: web bench lint fmt generate clean
web: ## Builds the pages into web/dist
	@scripts/dev/deps web
	@scripts/dev/web build

bench_system    = scripts/dev/bench $(BENCH)
bench_go        = scripts/dev/with-dependencies go test -run '^$$' -bench . -benchmem -p 1 $(PKG)
bench_ratelimit = go build -o .bin/bench-ratelimit ./test/bench-ratelimit && \
	MYSQL_DSN=- ROCKETMQ_NAMESRV=- scripts/dev/with-dependencies .bin/bench-ratelimit -rounds $(ROUNDS)
bench: deps .bin ## Measures the system (BENCH="-only inline", BENCH_BEFORE=<commit>), OF=go PKG=./pkg/lock a package, OF=ratelimit the limiters
	@$(or $(bench_$(OF)),$(error OF is system, go or ratelimit))

lint: $(GOLANGCI_LINT) $(OAPI_CODEGEN) $(ACTIONLINT) $(HELM3) ## Runs linters and checks format, go.mod, generated code, shell scripts, workflows, links and words
	@scripts/dev/deps lint
	@scripts/dev/lint $(GOLANGCI_LINT) $(OAPI_CODEGEN) $(ACTIONLINT) $(HELM3)

fmt: $(GOLANGCI_LINT) ## Formats all Go code
	@$(GOLANGCI_LINT) fmt $$(go list -f '{{.Dir}}/...' -m)

generate: $(OAPI_CODEGEN) $(HELM3) ## Generates Go code from the OpenAPI files, the tables of settings and of the chart's values, dashboards, and the edge's configuration
	@scripts/dev/generate $(OAPI_CODEGEN)
	@go run ./test/lint/surface
	@cd test/chart && go run ./cmd/values -write ../../docs/kubernetes.md && go run ./cmd/dashboards
	@scripts/dev/edge-conf $(HELM3)

clean: ## Stops every process of this folder and deletes all builds and data
	@[ ! -e .run/cluster/started ] || scripts/cluster/stop
	@for set in "$${RUN_DIR:-.run}" .run/*; do [ ! -d "$$set" ] || { RUN_DIR=$$set scripts/dev/monitoring down && RUN_DIR=$$set scripts/dev/services kill && RUN_DIR=$$set scripts/dev/dependencies kill; } || exit 1; done
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

$(STRIPE_MOCK):
	$(call install,github.com/stripe/stripe-mock@v0.203.0)

# install(module@version) builds a tool outside of the workspace, into a file named after its version, complete or not
# at all.
define install
	@echo "installing $(1)"
	@mkdir -p $(TOOLS) && dir=$$(mktemp -d -p $(TOOLS)) && for n in 1 2 3 4; do \
		if GOBIN=$$dir GOWORK=off go install $(1); then break; fi; test $$n -lt 4 && sleep 10 || { rm -r $$dir; exit 1; }; \
	done && mv $$dir/* $@ && rm -r $$dir
endef
