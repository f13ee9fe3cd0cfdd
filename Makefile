# Needs Python 3.11 or later, make and pip; everything else goes into .venv and build/.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PY     := $(BIN)/python
BUILD  := build
# What `make test` hands to pytest, for example ARGS="tests/solver -k banks".
ARGS   ?=
# How many processes `make test` runs; 0 runs the tests in pytest's own, as a debugger needs it.
JOBS   ?= auto

MODEL    := $(BUILD)/resnet50.onnx
COMPILED := $(BUILD)/resnet50.girih
REPORT   := $(BUILD)/resnet50.report.txt

# pip installs into the environment from outside: that needs no ensurepip, which some distributions split off.
INSTALL := $(PYTHON) -m pip --python $(PY) --disable-pip-version-check install --quiet

# Debian's package manager, as root or through sudo.
APT := $(if $(filter 0,$(shell id -u)),,sudo -n) env DEBIAN_FRONTEND=noninteractive apt-get

# Python may keep what it has compiled: the tests and the site start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE

# Set where tests of pages have to run, and not to be skipped.
BROWSER_REQUIRED := $(filter required,$(GIRIH_BROWSER_TESTS))

.PHONY: help demo test lint browser dist tour format docs site screenshot bench bench-ablation bench-allocation bench-calibration bench-computes bench-fit bench-hostile bench-machines bench-models bench-published bench-mutations bench-prediction bench-scaling bench-simulator bench-source-mutants clean
.DEFAULT_GOAL := help

help: ## list these tasks
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.installed | $(BUILD) ## build ResNet-50, compile it for stcp920, run and check it, explain the schedule
	@echo "== 1/4  build $(MODEL)"
	@$(BIN)/girih models resnet50 -o $(MODEL)
	@echo "== 2/4  compile: at most 60 s of solving"
	@$(BIN)/girih compile $(MODEL) -o $(COMPILED) --target stcp920 --precision fp16 --batch 32 --solver-timeout 60
	@echo "== 3/4  simulate 32 images and check them against a reference"
	@$(BIN)/girih run $(COMPILED) --check
	@echo "== 4/4  explain the schedule"
	@$(BIN)/girih explain $(COMPILED) --format text -o $(REPORT)
	@head -n 60 $(REPORT)
	@echo "== done: the rest of the report is in $(REPORT), the compiled network in $(COMPILED)"

test: $(VENV)/.installed-dev ## run the tests on all cores; ARGS="..." goes to pytest (ARGS="tests/goldens --update-golden" keeps changed texts)
	$(PY) -m pytest -n $(JOBS) --dist loadfile $(ARGS)

lint: $(VENV)/.installed-dev ## check style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(PY)

browser: ## install Chromium from Debian's archive where there is none, for the tests of reports and `make screenshot`
	@for browser in chromium chromium-browser google-chrome; do command -v $$browser >/dev/null && exit 0; done; \
	$(APT) update -qq && $(APT) install -qq -y --no-install-recommends chromium fonts-dejavu-core >/dev/null || { \
		echo "$(if $(BROWSER_REQUIRED),error,warning): there is no Chromium, and apt-get did not install it:" \
			"tests that need it $(if $(BROWSER_REQUIRED),fail,are skipped)" >&2; \
		$(if $(BROWSER_REQUIRED),exit 1,true); }

dist: $(VENV)/.installed-dev ## build sdist and wheel into build/dist, and check what they say of themselves
	@rm -rf $(BUILD)/dist
	$(PY) -m build --installer=pip --outdir $(BUILD)/dist .
	$(PY) -m twine check --strict $(BUILD)/dist/*
	$(PY) .ci/check_wheel.py $(BUILD)/dist/*.whl

tour: dist ## install the wheel into a fresh environment, and run the tour of the README there
	@rm -rf $(BUILD)/tour && mkdir -p $(BUILD)/tour
	$(PY) -m virtualenv --quiet $(BUILD)/tour/venv
	$(BUILD)/tour/venv/bin/pip --disable-pip-version-check install --quiet $(BUILD)/dist/*.whl
	@awk '/<!-- tour -->/ { here = 1 } here && /^```$$/ { exit } inside { print } here && /^```sh/ { inside = 1 }' README.md > $(BUILD)/tour/tour.sh
	cd $(BUILD)/tour && GIRIH_CACHE=off PATH="$$PWD/venv/bin:$$PATH" PYTHONPATH= sh -eux tour.sh

format: $(VENV)/.installed-dev ## rewrite the sources in the house format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.installed ## write the pages that derive from the sources
	$(PY) -m girih.ir.isa.manual > docs/isa.md
	$(PY) -m girih.explain.export.json_schemas

site: $(VENV)/.installed-docs ## build the documentation into build/site, with what its commands print today; warnings are errors
	@mkdir -p $(BUILD)/package && ln -sfn ../.. $(BUILD)/package/girih
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "build/site/index.html"

screenshot: $(VENV)/.installed-dev ## take the picture of a report in the README: of COMPILED=FILE, or what `make demo` has compiled; needs Chromium
	@test -f "$(COMPILED)" || { echo "error: $(COMPILED) is missing: make demo, or name a compiled network: make screenshot COMPILED=FILE" >&2; exit 2; }
	$(PY) docs/site/screenshot.py "$(COMPILED)" docs/assets/report.png

bench: JSON ?= $(BUILD)/networks.json
bench: $(VENV)/.installed-dev | $(BUILD) ## measure whole networks; results go to JSON=FILE
	$(PY) -m benchmarks.networks --json $(JSON)

bench-ablation: JSON ?= $(BUILD)/ablation.json
bench-ablation: $(VENV)/.installed-dev | $(BUILD) ## plan without each refinement of the solver, to see what it gains; rows go to JSON=FILE, ARGS="..." to the script
	$(PY) -m benchmarks.ablation --json $(JSON) $(ARGS)

bench-allocation: OUT ?= $(BUILD)/allocation
bench-allocation: $(VENV)/.installed | $(BUILD) ## allocate the buffers of INPUTS=DIR (id,lower,upper,size), offsets go to OUT=DIR; ARGS="..." to the script
	@test -n "$(INPUTS)" || { echo "error: name the directory of CSV files: make bench-allocation INPUTS=DIR OUT=DIR" >&2; exit 2; }
	@$(PY) -m benchmarks.allocation.allocate_files "$(INPUTS)" "$(OUT)" $(ARGS)

bench-calibration: JSON ?= $(BUILD)/calibration.json
bench-calibration: $(VENV)/.installed-dev | $(BUILD) ## compare with SCALE-Sim and published figures; tables go to JSON=FILE
	$(PY) -m benchmarks.calibration.report --networks $(BUILD)/networks.json $(BUILD)/published.json --json $(JSON)

bench-computes: JSON ?= $(BUILD)/computes.json
bench-computes: $(VENV)/.installed-dev | $(BUILD) ## lower 5,000 random operators under random plans, and compare; counts go to JSON=FILE, ARGS="..." to the script
	$(PY) -m benchmarks.drawn.random_computes --json $(JSON) $(ARGS)

bench-fit: JSON ?= $(BUILD)/fit.json
bench-fit: $(VENV)/.installed-dev | $(BUILD) ## fit the guesses of stcp920 to published figures, half of them held out; errors go to JSON=FILE, ARGS="..." to the script
	$(PY) -m benchmarks.calibration.fit --programs $(BUILD)/fit --json $(JSON) $(ARGS)

bench-hostile: JSON ?= $(BUILD)/hostile.json
bench-hostile: $(VENV)/.installed-dev | $(BUILD) ## compile thousands of damaged files; counts, defects and messages go to JSON=FILE, ARGS="..." to the script
	$(PY) -m benchmarks.hostile --json $(JSON) $(ARGS)

bench-machines: JSON ?= $(BUILD)/machines.json
bench-machines: $(VENV)/.installed-dev | $(BUILD) ## compile for 2,000 random machines: refused with a reason, or right to the bit; counts go to JSON=FILE, ARGS="..." to the script
	$(PY) -m benchmarks.drawn.random_machines --json $(JSON) $(ARGS)

bench-models: JSON ?= $(BUILD)/models.json
bench-models: $(VENV)/.installed-dev | $(BUILD) ## plan with each constraint model reduced to its hint, to see what it is worth; rows go to JSON=FILE, ARGS="..." to the script
	$(PY) -m benchmarks.model_worth --json $(JSON) $(ARGS)

bench-published: JSON ?= $(BUILD)/published.json
bench-published: $(VENV)/.installed-dev | $(BUILD) ## measure the ten published configurations; rows go to JSON=FILE, ARGS="..." to the script
	$(PY) -m benchmarks.published --json $(JSON) $(ARGS)

bench-mutations: JSON ?= $(BUILD)/mutations.json
bench-mutations: $(VENV)/.installed-dev | $(BUILD) ## make 2,000 small mistakes in right programs and see which are found
	$(PY) -m benchmarks.mutations --json $(JSON) $(ARGS)

bench-prediction: JSON ?= $(BUILD)/prediction.json
bench-prediction: $(VENV)/.installed-dev | $(BUILD) ## compare predicted with simulated cycles, small networks on all machines; figures go to JSON=FILE
	$(PY) -m benchmarks.prediction --json $(JSON) $(ARGS)

bench-scaling: JSON ?= $(BUILD)/scaling.json
bench-scaling: $(VENV)/.installed | $(BUILD) ## compile a transformer of 12 to 96 equal layers; seconds of each stage go to JSON=FILE
	$(PY) -m benchmarks.scaling --json $(JSON) $(ARGS)

bench-simulator: JSON ?= $(BUILD)/simulator.json
bench-simulator: $(VENV)/.installed-dev | $(BUILD) ## measure the simulator beside ONNX Runtime; figures go to JSON=FILE
	$(PY) -m benchmarks.simulator_speed --json $(JSON)

bench-source-mutants: JSON ?= $(BUILD)/source-mutants.json
bench-source-mutants: $(VENV)/.installed-dev | $(BUILD) ## change 300 places of the sources and see whether the nearest tests notice; resumes from JSON=FILE
	$(PY) -m benchmarks.source_mutants --json $(JSON) $(ARGS)

clean: ## delete what these tasks made
	rm -rf $(VENV) $(BUILD) girih.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.installed: pyproject.toml | $(PY)
	@echo "installing girih into $(VENV)"
	@$(INSTALL) -e .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(PY)
	@echo "installing girih and its development tools into $(VENV)"
	@$(INSTALL) -e '.[dev]'
	@touch $(VENV)/.installed $@

$(VENV)/.installed-docs: $(VENV)/.installed-dev
	@echo "installing what builds the documentation into $(VENV)"
	@$(INSTALL) -e '.[dev,docs]'
	@touch $@

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=...")'
	@$(PYTHON) -m venv --without-pip $(VENV)

$(BUILD):
	@mkdir -p $@
