"""Reasons why the hub was not reached, from the errors that libraries raise."""

import itertools

import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from seper_reward.runtime.hub import unreached_hub
from seper_reward.runtime.pretrained import helpful_errors


def raised(*errors):
    """Return the last of several errors, each caused by the one before."""
    for cause, error in itertools.pairwise(errors):
        error.__cause__ = cause
    return errors[-1]


def test_unreached_hub_names_the_first_cause():
    chain = raised(ConnectionError("Name or service not known"), LocalEntryNotFoundError("x"), OSError("check it"))
    assert unreached_hub(chain) == "the hub cannot be reached (Name or service not known)"
    # offline mode, and a file that is not there
    assert unreached_hub(raised(LocalEntryNotFoundError("x"), OSError("check it"))) == ""
    assert unreached_hub(OSError("no config.json")) == ""


def test_helpful_errors_name_an_unreached_hub():
    chain = raised(ConnectionError("no route"), LocalEntryNotFoundError("x"), OSError("long\nadvice"))
    with (
        pytest.raises(OSError, match=r"^reader='org/name' could .* this machine, and the hub .* \(no route\)$"),
        helpful_errors("reader", "org/name", "a hub id"),
    ):
        raise chain
