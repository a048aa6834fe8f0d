# Everything that CI runs is a target here, and runs the same by hand.
SHELL       := bash
.SHELLFLAGS := -eu -o pipefail -c
GO          ?= go
BIN         := bin/jobprobe
LDFLAGS     ?=
FUZZTIME    ?= 30s
BENCHTIME   ?= 1s

# Platforms that behave, and platforms that only build.
TARGETS := linux/amd64 linux/arm64 linux/386 linux/riscv64 linux/s390x \
           darwin/amd64 darwin/arm64 windows/amd64 windows/arm64 \
           freebsd/amd64 openbsd/amd64 netbsd/amd64

export CGO_ENABLED ?= 0

.PHONY: build demo test race test-windows test-arch stress check fmt vet lint tidy cross bench fuzz clean

build: ## The binary, in bin/.
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/jobprobe

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

lint: ## staticcheck and exhaustive, once for each operating system.
	$(GO) build -modfile=tools/go.mod -o bin/ honnef.co/go/tools/cmd/staticcheck github.com/nishanths/exhaustive/cmd/exhaustive
	for os in linux darwin windows; do \
	  echo "$$os" ; \
	  GOOS=$$os bin/staticcheck ./... ; \
	  GOOS=$$os bin/exhaustive -typeignore '(^syscall|/jsontext)\.' ./... ; \
	done

tidy:
	$(GO) mod tidy -diff

cross: ## Build, vet and compile the tests for every platform.
	for target in $(TARGETS); do \
	  echo "$$target"; export GOOS=$${target%/*} GOARCH=$${target#*/}; \
	  $(GO) build -trimpath ./... ; $(GO) vet ./... ; $(GO) test -exec=true ./... >/dev/null ; \
	done

bench: ## Beside the bare system calls, then beside other libraries.
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) . ./sidecar
	$(GO) test -run '^$$' -bench . -benchtime 1x ./reap ./cmd/jobprobe # these take samples of their own
	cd bench && $(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) .

fuzz: ## Every fuzz target for FUZZTIME.
	for pkg in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg ; \
	  done ; \
	done

clean:
	rm -rf bin dist
