# `make` alone lists the targets. Each does the set-up that it needs, once, in a virtual environment of its own.
VENV := .venv
BIN := $(VENV)/bin
# the first of these that runs and is new enough makes .venv; PYTHON=... makes it anew with another
PYTHONS := python3.13 python3.12 python3.11 python3
PYTHON ?=
# torch without CUDA; TORCH_INDEX= (empty) takes what pip's own index has, which on Linux brings CUDA along
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
ARGS ?=
# of the tests; each trains with one thread
WORKERS ?= 2
# beside the test extra: EXTRAS=test,ray,trl also runs what needs Ray and TRL
EXTRAS ?= test
# the environment, which another Python makes anew; what is in it, which other extras add to
MADE := $(VENV)/.made$(subst /,-,$(PYTHON))
READY := $(VENV)/.ready-$(EXTRAS)
# uv, where it is installed, is faster than pip, and fetches a Python where there is none
UV := $(shell command -v uv)
PIP := $(if $(UV),uv pip install --python $(BIN)/python --index-strategy unsafe-best-match,$(BIN)/python -m pip install) --quiet

.DEFAULT_GOAL := help
.PHONY: help install ablation claims claims-quick test test-all bench docs data paper sync dashboard lint constraints audit versions clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'
	@echo "  variables:  ARGS=\"...\" more arguments for ablation or test; WORKERS=1; EXTRAS=test,ray,trl; TORCH_INDEX= for torch with CUDA; PYTHON=python3.12"

install: $(READY) ## make .venv with this project and its tests' needs (done by the others when needed)

ablation: $(READY) ## three ways to normalise advantages, ten paired seeds each, and the table that compares them
	$(BIN)/python -m rlexp.train -m norm=local,global,hybrid $(ARGS)

claims-quick: $(READY) ## claims on worlds, minutes: whether words and bits are those that are stored here
	$(BIN)/python -m benchmarks.again $(ARGS)

claims: $(READY) ## the questions of all claims, days; goes on where it was interrupted; ARGS="hydra/launcher=ray"
	$(BIN)/python -m benchmarks.asked --claims $(ARGS)
	$(BIN)/python -m benchmarks.cards

test: $(READY) ## run the test suite; ARGS="-m 'not slow'" for the quick part
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not rare" $(ARGS)

test-all: $(READY) ## run also the tests that take long and break rarely
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

bench: $(READY) ## measure speed and memory, a few minutes; docs/performance.md has the longer benchmarks and what they print
	for each in throughput growth roofline startup memory lecture; do $(BIN)/python -m benchmarks.$$each || exit 1; done

docs: ## build the docs site, build/site/index.html, without network once it is installed; a broken link ends it
	@$(MAKE) --no-print-directory install EXTRAS=docs
	$(BIN)/python -m benchmarks.site $(ARGS)

data: $(READY) ## write build/data, a data set of everything that is stored in docs/; docs/explore.md says what is in it
	$(BIN)/python -m benchmarks.dataset $(ARGS)

paper: ## write build/paper/rlexp.pdf, the report on the claims, from what is stored in docs/
	@$(MAKE) --no-print-directory install EXTRAS=paper
	$(BIN)/python -m benchmarks.paper $(ARGS)

sync: $(READY) ## send every offline run below runs/ to Weights & Biases; `.venv/bin/wandb login` comes first
	@found=$$(find runs -type d -name 'offline-run-*' -path '*/wandb/*'); \
	if [ -z "$$found" ]; then echo "no offline runs below runs/"; else echo "$$found" | xargs -d '\n' $(BIN)/wandb sync --yes; fi

dashboard: $(READY) ## write a Weights & Biases workspace for the newest sweep; SWEEP=runs/... for another, ARGS=--push to send it
	@sweep="$(SWEEP)"; : "$${sweep:=$$(ls -td runs/*/ 2>/dev/null | head -n 1)}"; \
	if [ -z "$$sweep" ]; then echo "no sweep below runs/" >&2; exit 1; fi; \
	$(BIN)/python -m rlexp.analysis.workspace "$$sweep" $(ARGS)

lint: $(READY) ## check the style
	$(BIN)/ruff check .

constraints: ## write the newest versions that hold on every Python from 3.11 into constraints.txt; needs uv
	uv pip compile --quiet --upgrade --universal --python-version 3.11 --all-extras --no-annotate \
	  --custom-compile-command "make constraints" pyproject.toml --output-file constraints.txt

audit: $(READY) ## look the pinned dependencies up in a database of known vulnerabilities; needs the network
	@$(BIN)/python -m venv --clear $(VENV)/.audit && $(VENV)/.audit/bin/python -m pip install --quiet pip-audit
	@cd $(VENV)/.audit; sed "s/ *;.*//" $(CURDIR)/constraints.txt > pinned.txt; \
	bin/pip-audit --no-deps --disable-pip --progress-spinner off -r pinned.txt > found.txt 2> said.txt; code=$$?; \
	left=$$(grep -c "could not be audited" found.txt) of=$$(grep -c "==" pinned.txt); \
	if [ $$code -gt 1 ] || [ ! -s said.txt -a ! -s found.txt ] || [ "$$left" -gt 0 ] || grep -q "Error\|Traceback" said.txt; then \
	  grep "could not be audited" found.txt | head -n 3; \
	  echo "not audited: the database of vulnerabilities was not reached for $${left} of $${of} pinned dependencies" >&2; exit 2; fi; \
	cat found.txt said.txt; exit $$code

versions: $(READY) ## run the quick suite on Python 3.11 to 3.13 and on the lowest and highest dependencies; an hour
	$(BIN)/python -m tests.faults.versions $(ARGS)

clean: ## remove the virtual environment and caches, never runs/
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis

$(MADE):
	@for python in $(if $(PYTHON),"$(PYTHON)",$(PYTHONS)) ""; do \
	  "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break; done; \
	if [ -z "$$python$(if $(PYTHON),,$(UV))" ]; then echo "Python 3.11 or newer is needed, not $(or $(PYTHON),what is here);" \
	  "name one, as in: make PYTHON=/path/to/python3.12; or install uv, which fetches one if none is named" >&2; exit 1; fi; \
	set -x; $(if $(UV),uv venv --quiet --clear --python "$${python:-3.13}","$$python" -m venv --clear) $(VENV)
	@touch $(VENV)/.made $@

$(READY): $(MADE) pyproject.toml constraints.txt
	@index="$(TORCH_INDEX)"; \
	if [ -n "$$index" ] && ! $(BIN)/python -c $(PROBE) "$$index/torch/" 2>/dev/null; then \
	  echo "$$index does not answer: torch comes from pip's own index"; index=; fi; \
	set -x; $(PIP) --constraint constraints.txt torch $${index:+--extra-index-url "$$index"}
	$(PIP) --constraint constraints.txt --editable '.[$(EXTRAS)]'
	@touch $@

PROBE := 'import sys; from urllib.request import Request, urlopen; \
  urlopen(Request(sys.argv[1], headers={"User-Agent": "pip"}), timeout=10)'
