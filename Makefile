# `make` without a target lists the targets. All build products are written under build/.

GO ?= go
PYTHON ?= python3
PREFIX ?= /usr/local
FUZZTIME ?= 30s
# The Python with which the heavy peers are installed. Some of them need 3.12 or later.
PEERS_PYTHON ?= python3.13
# The Pythons of `make wheel-test`. Those of `make test-versions` are in .ci/versions/run.py.
WHEEL_PYTHONS ?= python3.11 python3.12 python3.13
# The processor that `make wheel` builds for: x86_64 or aarch64. To build for aarch64, an x86_64 machine needs binutils-aarch64-linux-gnu.
WHEEL_ARCH ?= $(shell uname -m)
GOTESTFLAGS ?=
PYTESTFLAGS ?= -q

BUILD := build
VENV := $(BUILD)/venv
PEERS := $(BUILD)/venv-peers
# libzmq with its draft API. Its folder python has a pyzmq that uses it.
LIBZMQ := $(BUILD)/libzmq
# Examples that need the heavy peers.
HEAVY_EXAMPLES := examples/libtorch examples/onnxruntime-c examples/ray examples/torch-to-go examples/tvm
STRICT := -Wall -Wextra -pedantic -Werror
STRICT_CXX = -Wconversion -Wshadow -Wold-style-cast $(if $(findstring clang,$(shell $(CXX) --version)),,-Wuseless-cast)
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
# The folders with packages that build without cgo, completely or in part, and the list of these packages.
PURE := ./tens/... ./dlpack/... ./bridge/...
WITHOUT_CGO = CGO_ENABLED=0 $(GO) list -f '{{if .GoFiles}}{{.ImportPath}}{{end}}' $(PURE)
# Tells the tests of bridge/tvmffi where libtvm_ffi is. It is installed with the light peers.
TVM_FFI = DLBRIDGE_TVM_FFI="$$($(VENV)/bin/python -m tvm_ffi.config --libdir)"
PIP := -m pip --disable-pip-version-check install --quiet

# The sources of the Go library and of the Python package. If one changes, both are built again.
GO_SOURCES := go.mod go.sum $(shell find bridge dlpack include tens -name python -prune -o -name testdata -prune -o \
	-type f ! -name '*_test.go' -print)
PYTHON_SOURCES := $(shell find bridge/python -name tests -prune -o -name build -prune -o -name '*.egg-info' -prune -o \
	-name __pycache__ -prune -o -type f ! -name 'requirements-*.txt' -print)

export GO DESTDIR LIBDIR

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo needs examples typing cpp test test-go test-python test-cpp test-peers peers-python peers-examples exchanges tables race python-long python-checks check check-go check-others vet staticcheck layers asan tsan gogc1 frames \
	processors arm64 mutants mutants-third zeromq libzmq soak abi abi-record vendor header installed dist wheel wheel-test wheel-checks test-versions fuzz bench bench-zeromq bench-processes venv clib amalgamation install install-tensor uninstall clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: needs $(VENV)/dlbridge.done ## a tensor of 1 GiB, and messages, shared between Go, C and NumPy
	$(GO) build -buildmode=c-shared -o $(BUILD)/libdemo.so ./examples/demo
	@echo
	@$(VENV)/bin/python examples/demo/demo.py $(BUILD)/libdemo.so

# Before anything is downloaded or built, prints one line with the tools that the machine lacks.
needs:
	@GO="$(GO)" PYTHON="$(PYTHON)" CC="$(if $(filter default,$(origin CC)),,$(CC))" sh .ci/needs.sh

# The Go tests leave a core idle for much of their time, so the Python tests run at the same time.
test: needs ## the tests of all languages, and the demo
	@$(MAKE) --no-print-directory -j2 -Oline test-go test-python test-cpp
	@$(MAKE) --no-print-directory demo

# Package dlpack comes first because its tests take longest. The tests of the other packages run at the same time.
test-go: $(VENV)/requirements.done ## the Go and C tests without the longest, under the race detector and without cgo
	$(TVM_FFI) $(GO) test -race -short $(GOTESTFLAGS) ./dlpack ./...
	CGO_ENABLED=0 $(GO) test -short $(GOTESTFLAGS) $$($(WITHOUT_CGO))

# Tests that take very long under a detector of races, which finds nothing in them, because they have one thread.
ONE_THREAD := ^Test((Scaled)?NumbersBecome|ViewsAreWhatTheirIndicesSay|OperationsDoNotCareWhereMemoryLies)
race: $(VENV)/requirements.done ## the Go and C tests that test-go makes shorter or leaves out, in full, under the race detector, except ONE_THREAD, and without cgo
	$(PYTHON) .ci/marked.py long > $(BUILD)/long.txt
	while read -r package tests; do $(TVM_FFI) $(GO) test -race -skip '$(ONE_THREAD)' $(GOTESTFLAGS) -run "$$tests" "$$package" || exit 1; done < $(BUILD)/long.txt
	$(GO) test -run '$(ONE_THREAD)' $(GOTESTFLAGS) ./dlpack ./dlpack/internal/core
	CGO_ENABLED=0 $(GO) test $(GOTESTFLAGS) -run "$$(cut -d ' ' -f 2 $(BUILD)/long.txt | paste -s -d '|')" $$($(WITHOUT_CGO))

test-python: $(VENV)/dlbridge.done ## the Python tests except the long ones, with the light peers
	$(VENV)/bin/python -m pytest $(PYTESTFLAGS) -m "not peers and not long" bridge/python/tests
	$(VENV)/bin/python -m pytest $(PYTESTFLAGS) bridge/gorgonia/testdata bridge/tvmffi/testdata/test_served.py
	$(VENV)/bin/python -m pytest $(PYTESTFLAGS) examples/share examples/test_readmes.py

python-long: $(VENV)/dlbridge.done ## the Python tests that take many seconds
	$(VENV)/bin/python -m pytest $(PYTESTFLAGS) -m "long and not peers" bridge/python/tests

# The Python tests use one core, so the examples run at the same time.
test-peers: $(PEERS)/dlbridge.done $(PEERS)/suites/test_tensor.py ## the exchange with PyTorch, JAX, TensorFlow, Dask, Ray and the clients of formats (installs gigabytes)
	@$(MAKE) --no-print-directory -j2 -Oline peers-python peers-examples

peers-python: $(PEERS)/dlbridge.done $(PEERS)/suites/test_tensor.py
	DLBRIDGE_PEERS=1 $(PEERS)/bin/python -m pytest $(PYTESTFLAGS) -m peers bridge/python/tests
	$(PEERS)/bin/python -m pytest $(PYTESTFLAGS) bridge/tvmffi/testdata
	cd bridge/onnxruntime && GOEXPERIMENT=cgocheck2 PYTHON=$(abspath $(PEERS))/bin/python $(GO) test -race -exec '$(GOGC1)' $(GOTESTFLAGS) ./...

peers-examples: $(PEERS)/dlbridge.done
	$(PEERS)/bin/python -m pytest $(PYTESTFLAGS) examples/kernels examples/model-to-torch $(HEAVY_EXAMPLES)
	$(GO) build -buildmode=c-shared -o $(BUILD)/libdemo.so ./examples/demo
	$(PEERS)/bin/python examples/demo/demo.py $(BUILD)/libdemo.so
	PYTHON=$(abspath $(PEERS))/bin/python sh examples/libtorch/run.sh test -race $(GOTESTFLAGS) ./...
	cd examples/onnx && PYTHON=$(abspath $(PEERS))/bin/python $(GO) test -race $(GOTESTFLAGS) ./...

exchanges: $(PEERS)/dlbridge.done ## a million exchanges with each of the peers, in both directions, without a leak; takes minutes
	DLBRIDGE_PEERS=1 DLBRIDGE_EXCHANGES=1000000 $(PEERS)/bin/python -m pytest $(PYTESTFLAGS) bridge/python/tests/test_peer_exchanges.py

tables: $(PEERS)/dlbridge.done ## measure which tensors the peers accept, and write the tables of bridge/README.md and bridge/python/README.md
	$(PEERS)/bin/python -m dlbridge --json --timeout 300 > $(BUILD)/report.json
	$(PEERS)/bin/python bridge/python/tests/tables.py < $(BUILD)/report.json

examples: $(VENV)/dlbridge.done $(LIBZMQ)/libzmq.done ## every example that needs only the light peers; C and C++ under the sanitizers
	$(VENV)/bin/python -m pytest $(PYTESTFLAGS) examples $(addprefix --ignore=,$(HEAVY_EXAMPLES))
	cd examples/gorgonia-graph && $(GO) test -race $(GOTESTFLAGS) ./...

# Most checks use one core for much of their time, so two lists of checks run at the same time. Both take about equally long.
CHECKS := header frames typing cpp abi vendor installed dist wheel-checks examples arm64 python-long python-checks
CHECKS_OF_GO := staticcheck layers race asan tsan gogc1 processors zeromq mutants-third fuzz
check: vet $(VENV)/dlbridge.done $(LIBZMQ)/libzmq.done ## the checks that find faults which the tests alone do not find
	@$(MAKE) --no-print-directory -j2 -Oline check-go check-others

check-go:
	@$(MAKE) --no-print-directory -j1 $(CHECKS_OF_GO)

check-others:
	@$(MAKE) --no-print-directory -j1 $(CHECKS)

vet: ## formatting, go.mod and go vet, for other platforms too; the code still has the lines that mutants change
	@unformatted=$$(gofmt -l bridge dlpack examples include tens); \
	if [ -n "$$unformatted" ]; then echo "not formatted: $$unformatted" >&2; exit 1; fi
	$(GO) mod tidy -diff
	$(PYTHON) .ci/mutants/run.py
	$(GO) vet ./...
	CGO_ENABLED=0 $(GO) vet $$($(WITHOUT_CGO))
	CGO_ENABLED=0 GOARCH=arm64 $(GO) vet $$($(WITHOUT_CGO))
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 $(GO) vet $$($(WITHOUT_CGO))
	cd bridge/onnxruntime && $(GO) mod tidy -diff && $(GO) vet ./...
	cd examples/bench && $(GO) mod tidy -diff && $(GO) vet ./...
	cd examples/gorgonia-graph && $(GO) mod tidy -diff && $(GO) vet ./...
	cd examples/onnx && $(GO) mod tidy -diff && $(GO) vet ./...
	cd examples/libtorch && $(GO) mod tidy -diff

layers: ## check that Go packages import only lower ones, that no files use each other in a circle, and who includes core.h
	$(PYTHON) .ci/layers/check_test.py
	$(PYTHON) .ci/layers/check.py

staticcheck: ## staticcheck, at a pinned version
	$(GO) run $(STATICCHECK) ./...
	cd bridge/onnxruntime && $(GO) run $(STATICCHECK) ./...
	cd examples/bench && $(GO) run $(STATICCHECK) ./...
	cd examples/gorgonia-graph && $(GO) run $(STATICCHECK) ./...
	cd examples/onnx && $(GO) run $(STATICCHECK) ./...

# Tests that build programs, which no checker of Go reaches. asan and gogc1 leave them out; test-go and tsan run them.
SAME := TestPackageCommentsBegin|TestABuild|TestEveryFunctionIsInAllItsPlaces|TestStructuresGrow|TestTheScripts|TestLibraryStaysAfterDlclose|TestFaultsBecomeErrors|TestTwoGoLibraries|TestLibdlbridgeTensor|TestAnOfferDoesNotKeepAProcessAlive|UnderThreadSanitizer|TestToolsNameTheGuilty
# Other targets compile the core with gcc. clang makes other vector code, so the tests of conversions run with it too.
asan: $(VENV)/requirements.done ## the Go tests under AddressSanitizer and LeakSanitizer; the core, built with clang, under UndefinedBehaviorSanitizer
	$(TVM_FFI) ASAN_OPTIONS=allocator_may_return_null=1 $(GO) test -asan -short -skip '$(SAME)' $(GOTESTFLAGS) ./...
	CC=clang CGO_CFLAGS='-g -fsanitize=undefined -fno-sanitize-recover=all' CGO_LDFLAGS=-fsanitize=undefined \
	  $(GO) test -short $(GOTESTFLAGS) ./dlpack/internal/core

# libasan must be the first library of the process. PYTHONMALLOC gives each Python object its own allocation, and finds calls without the
# GIL. The check for leaks is off, because Python itself leaks at its end. Tests with the mark memory are left out, because the sanitizer
# needs more memory. GOGC1 is defined at the target gogc1.
python-checks: $(BUILD)/asan/dlbridge.done ## the Python tests with the extension under AddressSanitizer and UndefinedBehaviorSanitizer, in Python's development mode, while Go's collector always runs; warnings are errors
	PYTHONDEVMODE=1 $(GOGC1) LD_PRELOAD="$$($(CC) -print-file-name=libasan.so) $$($(CC) -print-file-name=libubsan.so)" PYTHONMALLOC=malloc_debug \
	  ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=halt_on_error=1 PYTHONPATH=$(abspath $(BUILD)/asan/site) \
	  $(VENV)/bin/python -m pytest $(PYTESTFLAGS) -W error -m "not peers and not long and not memory" bridge/python/tests

# Runs the tests in which threads meet: those that call testmode.MeetsThreads.
MEET_THREADS = threads="$$($(PYTHON) .ci/marked.py threads)" && printf '%s\n' "$$threads" | while read -r package tests; do \
	  $(GO) test -count=1 $(GOTESTFLAGS) -run "$$tests" "$$package" || exit 1; done

# ThreadSanitizer checks the C code; Go's race detector, in test-go, does not see it.
TSAN := TSAN_OPTIONS=allocator_may_return_null=1 CGO_CFLAGS='-g -O2 -fsanitize=thread' CGO_LDFLAGS=-fsanitize=thread
tsan: ## the C core and the C functions under ThreadSanitizer
	$(TSAN) $(GO) test -skip '$(ONE_THREAD)' $(GOTESTFLAGS) ./dlpack/internal/core
	export $(TSAN); $(MEET_THREADS)
	$(GO) test $(GOTESTFLAGS) -run ThreadSanitizer ./bridge/capi

processors: ## the core, and the tests in which threads meet, with GOMAXPROCS=1, 2 and 8
	for n in 1 2 8; do export GOMAXPROCS=$$n; $(GO) test -count=1 -skip '$(ONE_THREAD)' $(GOTESTFLAGS) ./dlpack/internal/core && $(MEET_THREADS) || exit 1; done

# Needs the Debian packages gcc-aarch64-linux-gnu and qemu-user.
arm64: ## the tests of the core under emulation of arm64
	@if command -v aarch64-linux-gnu-gcc qemu-aarch64; then \
	  GOARCH=arm64 CGO_ENABLED=1 CC=aarch64-linux-gnu-gcc $(GO) test -exec 'qemu-aarch64 -L /usr/aarch64-linux-gnu' \
	    $(GOTESTFLAGS) ./dlpack/internal/core ./dlpack/background; \
	else echo 'SKIP: aarch64-linux-gnu-gcc or qemu-aarch64 is not installed'; fi

# Needs the Debian packages libzmq3-dev and libczmq-dev, and for drafts cmake and g++. A process has only one libzmq: the tests of package
# drafts use the libzmq with drafts, and all others use Debian's.
# Go's build cache ignores the output of pkg-config, but not CGO_LDFLAGS. So CGO_LDFLAGS makes each checkout link to its own libzmq.
WITH_DRAFTS = PKG_CONFIG_PATH=$(abspath $(LIBZMQ))/lib/pkgconfig LD_LIBRARY_PATH=$(abspath $(LIBZMQ))/lib \
	CGO_LDFLAGS="-O2 -g -L$(abspath $(LIBZMQ))/lib" CGO_CFLAGS="-O2 -g -I$(abspath $(LIBZMQ))/include"
zeromq: $(LIBZMQ)/pyzmq.done $(VENV)/dlbridge.done ## messages between bridge/zeromq and its peers, go-zeromq, pebbe/zmq4 and CZMQ, under the race detector; CLIENT and SERVER, in Python too
	@if pkg-config --exists libzmq libczmq; then \
	  (cd examples/bench/zeromq && $(GO) mod tidy -diff && $(GO) vet ./...) && \
	  cd bridge/zeromq/peers && $(GO) mod tidy -diff && $(GO) vet . && $(GO) test -race $(GOTESTFLAGS) . && \
	  export $(WITH_DRAFTS) && $(GO) vet ./drafts && $(GO) test -race $(GOTESTFLAGS) ./drafts; \
	else echo 'SKIP: libzmq or libczmq is not installed'; fi
	PYTHONPATH=$(abspath $(LIBZMQ))/python $(VENV)/bin/python -m pytest $(PYTESTFLAGS) bridge/python/tests/test_zeromq_drafts.py

SOAK ?= 10m
soak: $(VENV)/dlbridge.done ## the pipeline of examples/pipeline for SOAK, with random sizes, while workers are killed, and a million broken messages; needs libzmq
	$(GO) build -o $(BUILD)/pipeline ./examples/pipeline
	$(GO) test -count=1 -timeout 60m -run HostileMessages ./bridge/zeromq -args -hostile 1000000
	$(BUILD)/pipeline run -for $(SOAK) -random -kill 2s -python $(VENV)/bin/python

# These variables are for the tests, not for the compiler. The tests of capi run the compiler, so they set the variables themselves.
GOGC1 := env GOGC=1 GODEBUG=clobberfree=1,invalidptr=1,cgocheck=1
# capi is tested without the tag debug, because the libraries that its tests build have no tags.
gogc1: $(VENV)/requirements.done ## the Go tests with the strictest check of the cgo rules, a collector that always runs and overwrites freed memory, and tensors whose freed memory faults
	$(GO) vet -tags debug ./...
	$(TVM_FFI) GOEXPERIMENT=cgocheck2 $(GO) test -exec '$(GOGC1)' -tags debug -short -skip '$(SAME)' $(GOTESTFLAGS) $$($(GO) list ./... | grep -v /capi$$)
	GOEXPERIMENT=cgocheck2 $(GO) test -short -skip '$(SAME)' $(GOTESTFLAGS) ./bridge/capi

mutants: ## break rules of ownership, formats and layouts in turn; a test must notice each
	$(PYTHON) .ci/mutants/run.py $(BUILD)/mutants

mutants-third: ## a third of mutants, which the hash of the commit selects
	$(PYTHON) .ci/mutants/run.py $(BUILD)/mutants "$$(git rev-parse HEAD)"

abi: $(VENV)/requirements.done ## compare our dlpack.h with upstream's, and build with upstream's
	$(VENV)/bin/python .ci/abi/compare.py include/dlpack/dlpack.h
	sh .ci/abi/build.sh $(BUILD)/abi "$$($(VENV)/bin/python .ci/abi/compare.py --upstream)"

abi-record: ## write bridge/capi/testdata/abi.txt, the record of the C interface, which may grow with the version
	$(GO) test ./bridge/capi -count=1 -run 'ABIChanges|RecordedHeader' -update-abi

vendor: ## build and run a program from a vendored copy, and find the headers as a C file of another module does
	sh .ci/vendor/run.sh $(BUILD)/vendor

header: ## compile each header alone, in C99, C11, C++17 and C++20
	@for header in dlpack/dlpack.h dlbridge.h; do \
	  for language in 'c -std=c99' 'c -std=c11' 'c++ -std=c++17'; do \
	    echo "$$header $$language"; \
	    echo "#include <$$header>" | $(CC) -x $$language $(STRICT) -Iinclude -fsyntax-only - || exit 1; \
	  done; \
	done
	@for standard in c++17 c++20; do \
	  echo "dlbridge.hpp c++ -std=$$standard"; \
	  echo '#include <dlbridge.hpp>' | $(CXX) -x c++ -std=$$standard $(STRICT) $(STRICT_CXX) -Iinclude -fsyntax-only - || exit 1; \
	done

# A larger frame could reach beyond the guard page below the stack of a thread, into other memory.
FRAMES = -O2 -Werror=frame-larger-than=4096 -Werror=vla

frames: ## no stack frame of the C code is larger than a page
	CGO_CFLAGS='$(FRAMES)' $(GO) build ./...
	@for file in bridge/python/src/*.c; do \
	  $(CC) -std=gnu11 $(FRAMES) -DPy_LIMITED_API=0x030B0000 -I$$($(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))') \
	    -Iinclude -Idlpack/internal/core -Ibridge/internal/segment -Ibridge/capi -Ibridge -S -o /dev/null $$file || exit 1; \
	done

cpp: clib $(VENV)/ziglang.done ## the tests of dlbridge.hpp as C++17 and C++20 under the sanitizers, and as C++23 with clang
	sh .ci/cpp/run.sh $(BUILD)/lib $(BUILD)/cpp $(VENV)/bin/python

test-cpp: clib ## the tests of dlbridge.hpp as C++17, where there is a C++ compiler
	@if command -v $(CXX) > /dev/null; then sh .ci/cpp/run.sh $(BUILD)/lib $(BUILD)/cpp $(PYTHON) short; \
	else echo 'SKIP: $(CXX) is not installed'; fi

typing: $(VENV)/dlbridge.done $(VENV)/typing.done ## the type hints of the Python package, with mypy and pyright
	sh .ci/typing/run.sh $(VENV)/bin/python $(BUILD)/typing

installed: clib $(VENV)/ziglang.done ## build C and C++ programs with each compiler, kind of library and way of finding it; install and uninstall
	sh .ci/installed/run.sh $(BUILD)/lib $(BUILD)/installed $(VENV)/bin/python

dist: $(VENV)/requirements.done ## build/dist: the Python package as a source distribution, and a wheel built from it
	sh .ci/dist/run.sh $(VENV)/bin/python $(BUILD)/dist

wheel: $(BUILD)/wheel/requirements.done ## build/wheel/wheelhouse: the Python package as a wheel for every Linux on WHEEL_ARCH, which needs no Go
	sh .ci/wheel/build.sh $(BUILD)/wheel/venv/bin/python $(BUILD)/wheel $(WHEEL_ARCH)

wheel-test: wheel ## install the wheel with WHEEL_PYTHONS, and use it without Go and without a compiler
	sh .ci/wheel/test.sh $(BUILD)/wheel/wheelhouse $(BUILD)/wheel/test $(WHEEL_PYTHONS)

# CELLS selects some of the pairs, for example CELLS='3.11-1.26 3.13-2.5'.
test-versions: wheel ## the light tests that meet NumPy, and the READMEs' examples, with the wheel in each of 15 pairs of Python and NumPy, or in CELLS
	$(PYTHON) .ci/versions/run.py $(BUILD)/wheel/wheelhouse $(BUILD)/versions $(CELLS)

wheel-checks: wheel-test wheel ## wheel-test, and test-versions with the oldest pair and the two newest
	$(PYTHON) .ci/versions/run.py $(BUILD)/wheel/wheelhouse $(BUILD)/versions 3.11-1.26 3.12-2.5 3.13-2.5

fuzz: ## every fuzz target for FUZZTIME
	FUZZTIME=$(FUZZTIME) sh .ci/fuzz.sh $(BUILD)/fuzz

bench-zeromq: $(VENV)/dlbridge.done ## time TENS messages over ZeroMQ beside its peers; writes examples/bench/zeromq/README.md
	PYTHON="$(PYTHON)" sh examples/bench/zeromq/run.sh

bench-processes: $(PEERS)/dlbridge.done ## time how tensors reach other processes; writes examples/bench/processes/README.md
	PYTHON=$(abspath $(PEERS))/bin/python sh examples/bench/processes/run.sh

bench: ## time every path beside its peers; writes examples/bench/README.md
	sh examples/bench/run.sh

venv: $(VENV)/dlbridge.done ## build/venv: the Python package and the light peers

clib: ## build/lib: the C libraries
	sh bridge/libdlbridge/build.sh $(BUILD)/lib

libzmq: $(LIBZMQ)/libzmq.done ## build/libzmq: libzmq with its draft API, for CLIENT and SERVER sockets

amalgamation: ## build/amalgamation: libdlbridge_tensor as one C file, and its headers, for any project
	$(PYTHON) bridge/libdlbridge/amalgamate.py $(BUILD)/amalgamation

install: clib ## the C libraries and their headers, under PREFIX; the libraries in LIBDIR there, by default lib
	sh bridge/libdlbridge/install.sh $(BUILD)/lib "$(PREFIX)"

install-tensor: ## only libdlbridge_tensor and the headers; needs no Go
	sh bridge/libdlbridge/tensor.sh $(BUILD)/lib-tensor
	sh bridge/libdlbridge/install.sh $(BUILD)/lib-tensor "$(PREFIX)"

uninstall: ## remove the files that install has put under PREFIX, and the folders that it has made
	sh bridge/libdlbridge/uninstall.sh "$(PREFIX)"

clean: ## remove all build products
	rm -rf $(BUILD) bridge/python/build bridge/python/dist bridge/python/*.egg-info

%/requirements.done: bridge/python/requirements-test.txt | needs
	$(call new-venv,$*,$<,$(PYTHON))

$(BUILD)/wheel/requirements.done: .ci/wheel/requirements.txt | needs
	$(PYTHON) -m venv $(BUILD)/wheel/venv
	$(BUILD)/wheel/venv/bin/python $(PIP) -r $<
	@touch $@

$(VENV)/ziglang.done: .ci/cpp/requirements.txt $(VENV)/requirements.done
	$(VENV)/bin/python $(PIP) -r $<
	@touch $@

$(VENV)/typing.done: .ci/typing/requirements.txt $(VENV)/requirements.done
	$(VENV)/bin/python $(PIP) -r $<
	@touch $@

$(PEERS)/requirements.done: bridge/python/requirements-peers.txt bridge/python/requirements-test.txt | needs
	@python=$$(sh .ci/python.sh "$(PEERS_PYTHON)") && GO="$(GO)" PYTHON="$$python" PYTHON_MINOR=12 sh .ci/needs.sh
	$(call new-venv,$(PEERS),$<,"$$(sh .ci/python.sh "$(PEERS_PYTHON)")")

$(LIBZMQ)/libzmq.done: .ci/libzmq.sh
	PYTHON="$(PYTHON)" sh $< $(LIBZMQ)
	@touch $@

$(LIBZMQ)/pyzmq.done: $(LIBZMQ)/libzmq.done $(VENV)/requirements.done
	@rm -rf $(LIBZMQ)/python
	ZMQ_PREFIX=$(abspath $(LIBZMQ)) ZMQ_DRAFT_API=1 $(VENV)/bin/python $(PIP) --no-cache-dir --no-deps --no-binary pyzmq --target $(LIBZMQ)/python \
	  "$$(grep '^pyzmq==' bridge/python/requirements-test.txt)"
	@touch $@

# The DLPack tests of TVM-FFI are in its source distribution, not in its wheel.
$(PEERS)/suites/test_tensor.py: $(PEERS)/requirements.done
	@mkdir -p $(@D)
	$(PEERS)/bin/python -m pip --disable-pip-version-check download --quiet --no-deps --no-binary apache-tvm-ffi -d $(@D) \
	  "$$(grep '^apache-tvm-ffi==' bridge/python/requirements-test.txt)"
	tar -xzmf $(@D)/apache_tvm_ffi-*.tar.gz -C $(@D) --strip-components=3 --wildcards '*/tests/python/test_tensor.py'

# Only the extension is built with the sanitizers. It is installed beside the environment, with a copy of the environment's Go library.
SANITIZERS := -fsanitize=address,undefined -fno-omit-frame-pointer
$(BUILD)/asan/dlbridge.done: $(VENV)/dlbridge.done
	@mkdir -p $(BUILD)/asan
	@rm -rf $(BUILD)/asan/site
	@printf '[build]\nbuild_base = %s\n[egg_info]\negg_base = %s\n' $(abspath $(BUILD)/asan) $(abspath $(BUILD)/asan) > $(BUILD)/asan/setup.cfg
	CFLAGS="-g -O1 $(SANITIZERS)" LDFLAGS="$(SANITIZERS)" DLBRIDGE_WITHOUT_GO=1 DIST_EXTRA_CONFIG=$(abspath $(BUILD)/asan/setup.cfg) \
	  $(VENV)/bin/python $(PIP) --no-build-isolation --no-deps --target $(BUILD)/asan/site ./bridge/python
	cp -R $(VENV)/lib/python*/site-packages/dlbridge/_lib $(BUILD)/asan/site/dlbridge
	@touch $@

define new-venv
	$(3) -m venv $(1)
	$(1)/bin/python $(PIP) -r $(2)
	@touch $@
endef

# The package is copied into the environment. The configuration makes setuptools build outside the source tree.
%/dlbridge.done: %/requirements.done $(PYTHON_SOURCES) $(GO_SOURCES)
	@mkdir -p $(BUILD)/python
	@printf '[build]\nbuild_base = %s\n[egg_info]\negg_base = %s\n' $(abspath $(BUILD)/python) $(abspath $(BUILD)/python) > $(BUILD)/python/setup.cfg
	DIST_EXTRA_CONFIG=$(abspath $(BUILD)/python/setup.cfg) $*/bin/python $(PIP) --no-build-isolation --no-deps --force-reinstall ./bridge/python
	@touch $@
