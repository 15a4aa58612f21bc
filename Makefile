# The commands of the README. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CONVERTERS := $(VENV)/.converters
SITE_TOOLS := $(VENV)/.site_tools
DEMO := runs/demo
QUICK_TESTS := tests/utils tests/report tests/test_import.py tests/test_threat.py tests/test_losses.py \
	tests/data/test_names.py tests/training/test_options.py tests/programs/test_configs.py \
	--deselect=tests/report/test_report.py::test_what_an_evaluation_returns_can_be_shown

.PHONY: help install demo check test lint docs clean

help:
	@echo "make demo     train, evaluate and export a TRADES+HE classifier of digits, and write a report (about 2 minutes)"
	@echo "make check    lint and run the quickest tests, for daily use (under 2 minutes)"
	@echo "make test     lint, build the site and run all tests"
	@echo "make docs     build the site into site/, with all links checked"
	@echo "make lint     ruff, mypy and the import rules"
	@echo "make install  create $(VENV) with athe_tf and its test tools"
	@echo "make clean    remove $(VENV) and $(DEMO)"

install: $(STAMP)

$(STAMP): setup.py pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[test,analysis]"
	touch $@

# What the tests of ONNX and LiteRT files need; no installed version changes. Where it fails, these tests are
# skipped. PyTorch is not installed: its wheels have several gigabytes.
$(CONVERTERS): $(STAMP)
	$(BIN)/python -m pip freeze --exclude-editable > $(VENV)/constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c $(VENV)/constraints.txt -e ".[onnx,litert]" \
		|| echo "The extras 'onnx' and 'litert' cannot be installed beside this TensorFlow: tests of ONNX files are skipped."
	touch $@

$(SITE_TOOLS): $(STAMP)
	$(BIN)/python -m pip freeze --exclude-editable > $(VENV)/constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c $(VENV)/constraints.txt -e ".[docs]"
	touch $@

# Warnings are errors: a link or an anchor that leads nowhere is one.
docs: $(SITE_TOOLS)
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -b html docs site

# Nothing is removed: what is finished is kept, and what was interrupted continues.
demo: $(STAMP)
	bin/train --flagfile=configs/digits_trades_he.flags --workdir=$(DEMO)
	bin/evaluate --model=$(DEMO) --output=$(DEMO)/evaluation
	test -e $(DEMO)/export || bin/export --model=$(DEMO)/best.keras --output=$(DEMO)/export
	bin/report $(DEMO)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: $(STAMP) lint
	$(BIN)/python -m pytest $(QUICK_TESTS)

test: $(CONVERTERS) lint docs
	$(BIN)/python -m pytest -n 2 --dist=worksteal

clean:
	rm -rf $(VENV)
	test ! -e $(DEMO)/config.json || rm -rf $(DEMO)
