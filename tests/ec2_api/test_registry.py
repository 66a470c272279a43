"""All declared actions are listed, and exist in EC2's model with their arguments."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from portal.api.ec2 import actions as package
from portal.api.ec2.actions.every import ACTIONS, LISTS, TABLES
from portal.api.ec2.describe import Table
from portal.api.ec2.frame import Action
from portal.api.ec2.protocol import model


def test_every_argument_is_of_the_model() -> None:
    strange = {}
    for each in ACTIONS.values():
        shape = model.operation(each.name).input_shape
        known = set(model.members_of(shape)) if shape is not None else set()
        strange[each.name] = (each.takes | each.ignored) - known
    assert {name: names for name, names in strange.items() if names} == {}


def test_an_action_with_a_client_token_is_one_transaction() -> None:
    assert [each.name for each in ACTIONS.values() if "ClientToken" in each.takes and not each.whole] == []


def test_every_action_is_listed() -> None:
    modules = [import_module(each.name) for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    values = [value for module in modules for value in vars(module).values()]
    actions = {value.name for value in values if isinstance(value, Action)}
    tables = {value.action for value in values if isinstance(value, Table)}
    assert len(actions) > 60
    assert len(tables) > 20
    assert actions | tables == ACTIONS.keys() - {table.action for table in LISTS}
    assert tables == TABLES.keys() - {table.action for table in LISTS}
