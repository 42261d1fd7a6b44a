# `make` alone lists the targets. Each does the set-up that it needs, once, in a virtual environment of its own.
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell command -v python3.11 || command -v python3)
# torch without CUDA; TORCH_INDEX= (empty) takes what pip's own index has, which on Linux brings CUDA along
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
ARGS ?=
# of the tests; each trains with one thread
WORKERS ?= 2
# beside the test extra: EXTRAS=test,ray,trl also runs what needs Ray and TRL
EXTRAS ?= test
# other extras are another set-up
READY := $(VENV)/.ready-$(EXTRAS)

.DEFAULT_GOAL := help
.PHONY: help install ablation test bench sync lint clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'
	@echo "  variables:  ARGS=\"...\" more arguments for ablation or test; WORKERS=1; EXTRAS=test,ray,trl; TORCH_INDEX= for torch with CUDA; PYTHON=..."

install: $(READY) ## make .venv with this project and its tests' needs (done by the others when needed)

ablation: $(READY) ## three ways to normalise advantages, ten paired seeds each, and the table that compares them
	$(BIN)/python -m rlexp.train -m norm=local,global,hybrid $(ARGS)

test: $(READY) ## run the whole test suite
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

bench: $(READY) ## measure speed and memory, a few minutes; docs/performance.md has the longer benchmarks and what they print
	for each in throughput growth roofline startup memory lecture; do $(BIN)/python -m benchmarks.$$each || exit 1; done

sync: $(READY) ## send every offline run below runs/ to Weights & Biases; `.venv/bin/wandb login` comes first
	@found=$$(find runs -type d -name 'offline-run-*' -path '*/wandb/*'); \
	if [ -z "$$found" ]; then echo "no offline runs below runs/"; else echo "$$found" | xargs -d '\n' $(BIN)/wandb sync --yes; fi

lint: $(READY) ## check the style
	$(BIN)/ruff check .

clean: ## remove the virtual environment and caches, never runs/
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis

$(READY): pyproject.toml constraints.txt
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null || { \
	  echo "Python 3.11 is needed, and neither python3.11 nor python3 is one; name it: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	"$(PYTHON)" -m venv $(VENV)
	@index="$(TORCH_INDEX)"; \
	if [ -n "$$index" ] && ! $(BIN)/python -c $(PROBE) "$$index/torch/" 2>/dev/null; then \
	  echo "$$index does not answer: torch comes from pip's own index"; index=; fi; \
	set -x; $(BIN)/python -m pip install --quiet --constraint constraints.txt torch $${index:+--extra-index-url "$$index"}
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[$(EXTRAS)]'
	@touch $@

PROBE := 'import sys; from urllib.request import Request, urlopen; \
  urlopen(Request(sys.argv[1], headers={"User-Agent": "pip"}), timeout=10)'
