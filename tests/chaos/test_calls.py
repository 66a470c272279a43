"""What a chaos run calls: every server action of the registry, each with a body that the API takes."""

from __future__ import annotations

import random
from uuid import UUID

import pytest

from portal.api.common.requests import validate
from portal.api.compute.server_actions import ACTIONS
from provisioning.compute.actions.registry import actions
from provisioning.compute.states import VmState
from tools.chaos.calls import CALLS, IMAGE, MICROVERSION, example
from tools.chaos.plan import OTHERS, make

BY_THE_CLOUD_ITSELF = {"refresh_ports", "refresh_volume", "soft_delete"}
"""Actions that no request names."""
BY_PAGES = {"mount_volume", "extend_file_system"}
"""Actions that the API does not offer."""


def test_every_action_is_called() -> None:
    called = {action.key for call in CALLS.values() for action in call.actions}
    assert called | (OTHERS.keys() & actions.keys()) | {"delete"} | BY_THE_CLOUD_ITSELF | BY_PAGES == set(actions)


@pytest.mark.parametrize("name", CALLS)
def test_the_api_takes_what_is_sent(name: str) -> None:
    for seed in range(20):
        body = CALLS[name].body(random.Random(seed))  # noqa: S311 - to be the same again
        if isinstance(body, dict):
            body = {field: str(UUID(int=7)) if value == IMAGE else value for field, value in body.items()}
        validate({name: body}, ACTIONS[name].body_schema(name, MICROVERSION))


def test_a_body_has_what_its_schema_requires() -> None:
    schema = {
        "type": "object",
        "properties": {
            "imageRef": {"type": "string", "format": "uuid"},
            "size": {"oneOf": [{"type": "integer", "minimum": 3}, {"type": "null"}]},
            "mode": {"enum": ["fast"]},
            "word": {"type": ["string", "null"], "minLength": 7},
            "list": {"type": "array"},
            "sure": {"type": "boolean"},
            "more": {"type": "string"},
        },
        "required": ["imageRef", "size", "mode", "word", "list", "sure"],
    }
    requested = {"imageRef": IMAGE, "size": 3, "mode": "fast", "word": "chaosss", "list": [], "sure": False}
    assert example(schema, random.Random(1)) == requested  # noqa: S311
    assert example({}, random.Random(1)) is None  # noqa: S311


def test_where_a_call_leads() -> None:
    assert CALLS["os-stop"].state_after(VmState.ACTIVE) == VmState.STOPPED
    assert CALLS["os-stop"].state_after(VmState.PAUSED) == VmState.PAUSED, "it is refused"
    assert CALLS["createImage"].state_after(VmState.PAUSED) == VmState.PAUSED
    assert CALLS["os-resetState"].state_after(VmState.PAUSED, {"state": "error"}) == VmState.ERROR
    assert CALLS["os-start"].weight(VmState.STOPPED) > CALLS["createImage"].weight(VmState.STOPPED) > 0
    assert CALLS["os-start"].weight(VmState.ACTIVE) == 0
    assert CALLS["reboot"].weight(VmState.STOPPED) > 0
    assert CALLS["lock"].weight(VmState.ERROR) > 0


def test_operators_do_what_users_may_not() -> None:
    assert {name for name, call in CALLS.items() if call.by_operator} >= {"os-resetState", "shelveOffload"}
    assert not CALLS["os-stop"].by_operator


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_long_run_has_every_action(seed: int) -> None:
    kinds = {operation.kind for operation in make(seed, 1000).operations}
    assert kinds >= CALLS.keys() | OTHERS.keys()
