# The commands of the README. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO := runs/demo

.PHONY: help install demo test lint clean

help:
	@echo "make demo     train, evaluate, export and report on a TRADES+HE classifier of digits (about 2 minutes)"
	@echo "make test     lint and run the tests"
	@echo "make install  make $(VENV) with athe_tf and its test tools"
	@echo "make clean    remove $(VENV) and $(DEMO)"

install: $(STAMP)

$(STAMP): setup.py pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[test]"
	touch $@

demo: $(STAMP)
	rm -rf $(DEMO)
	bin/train --flagfile=configs/digits_trades_he.flags --workdir=$(DEMO)
	bin/evaluate --model=$(DEMO) --output=$(DEMO)/evaluation
	bin/export --model=$(DEMO)/best.keras --output=$(DEMO)/export
	bin/report $(DEMO)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: $(STAMP) lint
	$(BIN)/python -m pytest -n 2 --dist=worksteal

clean:
	rm -rf $(VENV) $(DEMO)
