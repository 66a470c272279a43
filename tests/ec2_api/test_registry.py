"""The actions that are registered exist in EC2's model, with their arguments."""

from __future__ import annotations

from portal.api.ec2.actions.every import actions
from portal.api.ec2.protocol import model


def test_every_argument_is_of_the_model() -> None:
    strange = {}
    for each in actions.values():
        shape = model.operation(each.name).input_shape
        known = set(model.members_of(shape)) if shape is not None else set()
        strange[each.name] = (each.takes | each.passes_over) - known
    assert {name: names for name, names in strange.items() if names} == {}


def test_an_action_with_a_client_token_is_one_transaction() -> None:
    assert [each.name for each in actions.values() if "ClientToken" in each.takes and not each.whole] == []
