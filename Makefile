# Everything that CI runs is a target here, and runs the same by hand.
SHELL       := bash
.SHELLFLAGS := -eu -o pipefail -c
GO          ?= go
BIN         := bin/jobprobe
LDFLAGS     ?=
FUZZTIME    ?= 200000x
BENCHTIME   ?= 1s
RUNS        ?= 10
GROWTH_RUNS ?= $(RUNS)

# Platforms that behave, and platforms that only build.
TARGETS := linux/amd64 linux/arm64 linux/386 linux/riscv64 linux/s390x \
           darwin/amd64 darwin/arm64 windows/amd64 windows/arm64 \
           freebsd/amd64 openbsd/amd64 netbsd/amd64

# What make dist builds, and where make install puts things.
DIST_TARGETS ?= $(TARGETS)
PREFIX       ?= /usr/local
DESTDIR      ?=

export CGO_ENABLED ?= 0

.PHONY: build share install uninstall dist dist-check demo test race test-windows test-arch stress check \
        fmt vet lint vuln tidy cross bench benchmarks fuzz clean

build: ## The binary, in bin/, stamped with the commit.
	$(GO) build -trimpath -buildvcs=auto -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/jobprobe

# What the binary prints of itself, where a system looks for it.
SHARE := man/man1/jobprobe.1=man \
         bash-completion/completions/jobprobe=completion-bash \
         zsh/site-functions/_jobprobe=completion-zsh \
         fish/vendor_completions.d/jobprobe.fish=completion-fish \
         jobprobe/completion.ps1=completion-powershell

share: build ## Man page and shell completions, in bin/share.
	rm -rf bin/share; mkdir -p bin/share
	for page in $(SHARE); do \
	  file=bin/share/$${page%=*}; command=$${page#*=}; mkdir -p $${file%/*}; \
	  $(BIN) $${command/-/ } >$$file ; \
	done

# BIN and bin/share as they are: built by whoever may, installed by root.
INSTALLED = $(DESTDIR)$(PREFIX)

install: ## What make share made, below PREFIX (/usr/local); DESTDIR stands before it.
	@test -x $(BIN) -a -d bin/share || { echo "run make share first" >&2; exit 1; }
	mkdir -p $(INSTALLED)/bin
	install -m 755 $(BIN) $(INSTALLED)/bin/jobprobe
	cd bin/share; find . -type f | while read -r file; do \
	  mkdir -p $(INSTALLED)/share/$${file%/*}; \
	  install -m 644 $$file $(INSTALLED)/share/$$file; \
	done

uninstall: ## Removes these files again.
	rm -f $(INSTALLED)/bin/jobprobe $(foreach page,$(SHARE),$(INSTALLED)/share/$(firstword $(subst =, ,$(page))))

dist: ## Archives, packages, SBOMs and SHA256SUMS of this commit, built twice and compared.
	$(GO) build -modfile=tools/release/go.mod -trimpath -buildvcs=false -o bin/ tool
	$(GO) build -trimpath -buildvcs=false -o bin/ ./packaging/archive
	packaging/dist.sh $(DIST_TARGETS)

dist-check: share ## Unpacks and installs what make dist made, and runs it (dpkg, rpm2cpio, cpio, unzip).
	packaging/check.sh

demo: build ## The main job on real processes, step by step.
	bash testdata/demo.sh $(BIN)

# A test run is read by skipcheck, which says what was skipped and why. Where
# CI is set, a skip that its list does not know is a failure.
TESTS = $(GO) test -json $(TESTFLAGS)
READ  = bin/skipcheck $(if $(CI),-strict) testdata/skips.txt

bin/skipcheck: $(wildcard internal/skipcheck/*.go)
	$(GO) build -o $@ ./internal/skipcheck

test: bin/skipcheck ## All tests on this machine.
	$(TESTS) ./... | $(READ)

race: bin/skipcheck ## The same under the race detector, which needs cgo.
	CGO_ENABLED=1 $(TESTS) -race ./... | $(READ)

test-windows: bin/skipcheck ## The Windows binary's tests, under wine (wine64, gcc-mingw-w64-x86-64).
	GOOS=windows GOARCH=amd64 $(TESTS) -exec "$$PWD/testdata/wine/run.sh" ./... | $(READ)

test-arch: bin/skipcheck ## 386 on this kernel, the others under qemu (qemu-user-static).
	GOARCH=386 $(TESTS) . | $(READ)
	for arch in arm64 riscv64 s390x; do \
	  echo "$$arch" ; \
	  GOARCH=$$arch $(TESTS) -exec "$$PWD/testdata/qemu/run.sh" . | $(READ) testdata/qemu/causes.txt ; \
	done

stress: bin/skipcheck ## The long runs, among them 20,000 recycled pids.
	JOBPROBE_STRESS=1 $(TESTS) -run Stress -timeout 60m ./... | $(READ)

check: fmt vet lint tidy cross test race ## All that must hold before a commit lands.

fmt:
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "run gofmt -w on these" >&2; exit 1; }

vet:
	$(GO) vet ./...

bin/tools: tools/go.mod tools/go.sum
	$(GO) build -modfile=tools/go.mod -o bin/ tool
	touch $@

lint: bin/tools ## actionlint, then staticcheck and exhaustive for each operating system.
	bin/actionlint .github/workflows/*.yml
	for os in linux darwin windows; do \
	  echo "$$os" ; \
	  GOOS=$$os bin/staticcheck ./... ; \
	  GOOS=$$os bin/exhaustive -typeignore '(^syscall|/jsontext)\.' ./... ; \
	done

vuln: bin/tools ## govulncheck, which asks its database: not for machines without a network.
	for os in linux darwin windows; do echo "$$os"; GOOS=$$os bin/govulncheck ./... ; done

tidy: ## Of the module, and of what CI builds its tools from.
	for module in . tools tools/release; do (cd $$module && $(GO) mod tidy -diff); done

cross: ## Build, vet and compile the tests for every platform.
	for target in $(TARGETS); do \
	  echo "$$target"; export GOOS=$${target%/*} GOARCH=$${target#*/}; \
	  $(GO) build -trimpath ./... ; $(GO) vet ./... ; $(GO) test -exec=true ./... >/dev/null ; \
	done

bench: ## Beside the bare system calls, then beside other libraries.
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) . ./sidecar
	$(GO) test -run '^$$' -bench . -benchtime 1x ./reap ./cmd/jobprobe # these take samples of their own
	cd bench && $(GO) test -run '^$$' -bench Alive -benchtime $(BENCHTIME) .

# So many runs of each; those with -benchtime 1x take samples of their own.
MEASURE = $(GO) test -run '^$$' -timeout 60m -count

benchmarks: bin/tools ## Writes BENCHMARKS.md from RUNS runs (10) of each benchmark, on Linux; about 8 minutes.
	load=$$(cut -d' ' -f1-3 /proc/loadavg); \
	{ $(MEASURE) $(RUNS) -bench Probe -benchtime 0.2s . ; \
	  (cd bench; $(MEASURE) $(RUNS) -bench Alive -benchtime 0.2s . ) ; \
	  $(MEASURE) $(RUNS) -bench 'Read|Update' -benchtime 1x ./sidecar ; \
	  $(MEASURE) $(RUNS) -bench 'Wake|Process' -benchtime 1x ./reap ; \
	  $(MEASURE) $(RUNS) -bench Run -benchtime 1x ./cmd/jobprobe ; \
	  (cd bench; $(MEASURE) $(GROWTH_RUNS) -bench Growth -benchtime 1x . ) ; } | tee bin/bench.txt ; \
	bin/benchstat -format csv -row .fullname bin/bench.txt >bin/bench.csv ; \
	cd bench; $(GO) run ./report -runs $(RUNS) -growth-runs $(GROWTH_RUNS) -load "$$load" <../bin/bench.csv >../bin/BENCHMARKS.md ; \
	mv ../bin/BENCHMARKS.md ..

fuzz: ## Every fuzz target, FUZZTIME inputs of it: under a time limit one was seen to fail by that alone.
	for pkg in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg ; \
	  done ; \
	done

clean:
	rm -rf bin dist
