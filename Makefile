# The two commands of the README, and what they need: Python 3.11 or newer, a C++ compiler and make.
PYTHON ?= python3
BIN = .venv/bin

.PHONY: demo test setup

# everything from a bare clone to figures, claims and report
demo: setup
	$(BIN)/dvc pull --quiet data/demo/model.pt data/demo/dict.txt
	$(BIN)/snakemake --cores all --resources gpu=1
	@echo "open results/demo/report/report.html"

test: .venv/.tests
	$(BIN)/python -m pytest

setup: .venv/.ready

.venv/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .
	touch $@

# the tests also cover the optional segmenter, and the checks of style
.venv/.tests: .venv/.ready
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[spacy,dev]'
	touch $@
