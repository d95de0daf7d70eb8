# The two commands of the README, and what they need: Python 3.11, a C++ compiler and make.
PYTHON ?= python3
BIN = .venv/bin

.PHONY: demo test newest setup inputs pull publish

# everything from a bare clone to figures, claims and report
demo: inputs
	$(BIN)/snakemake --cores all --resources gpu=1
	@echo "open results/demo/report/report.html"

test: .venv/.tests inputs
	$(BIN)/python -m pytest

# the published results of the demo run, and what is rebuilt here because it shows text: a minute, and nothing is due
pull: setup
	$(BIN)/dvc pull
	$(BIN)/ff-memories restore

# record a finished demo run and make artefacts/ hold that run alone; then commit artefacts/ and dvc.lock
publish: setup
	$(BIN)/ff-memories adopt
	$(BIN)/dvc push
	$(BIN)/dvc gc --workspace --cloud --force --quiet
	@du --apparent-size -sm artefacts | awk '{ print $$1 " MB in artefacts/, 40 at most"; exit $$1 > 40 }'

# the demo run's model and dictionary, from the remote inside the repository
inputs: setup
	$(BIN)/dvc pull --quiet data/demo/model.pt data/demo/dict.txt

setup: .venv/.ready

.venv/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .
	touch $@

# the tests also cover the optional segmenter, and the checks of style and types
.venv/.tests: .venv/.ready
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[spacy,dev]'
	touch $@

# what the next upgrade will meet: the tests with the newest release of everything, in an environment of its own; what
# differs from the lock is said before, what breaks after them
NEWEST = .venv-newest/bin
newest:
	$(PYTHON) -m venv --clear .venv-newest
	$(NEWEST)/python -m pip install --quiet -e '.[spacy,dev]'
	$(NEWEST)/python -m pip install --quiet --upgrade dvc snakemake torch
	$(NEWEST)/dvc pull --quiet data/demo/model.pt data/demo/dict.txt
	$(NEWEST)/python -c "from ff_memories.workflow.environment import *; print(*differences(pins()))"
	$(NEWEST)/python -m pytest -m 'not browser and not long and not slurm and not locked'
