"""The layout of a reader: by the names of the cache argument that releases of transformers have."""

import inspect

import pytest

from seper_reward.reader.in_process.layout import cache_argument


class Newest:
    def forward(self, input_ids, attention_mask=None, cache=None, **rest): ...


class Former:
    def forward(self, input_ids, attention_mask=None, past_key_values=None): ...


class Mamba:
    def forward(self, input_ids, cache_params=None): ...


class WithoutCache:
    def forward(self, input_ids, mems=None): ...


@pytest.mark.parametrize(
    ("model", "name"), [(Newest, "cache"), (Former, "past_key_values"), (Mamba, "cache_params"), (WithoutCache, None)]
)
def test_the_cache_argument_has_several_names(model, name):
    assert cache_argument(model()) == name


def test_the_embedded_reader_shares_prefixes_and_passes_its_cache_by_name(embedded_scorer):
    """With another layout each token would compute the whole prompt again, without an error."""
    assert embedded_scorer.sampler.layout == "tree"
    model = embedded_scorer.sampler.model
    assert cache_argument(model) in inspect.signature(model.forward).parameters
