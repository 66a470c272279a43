"""The server actions that a run calls: all actions of the cloud's registry, with bodies generated from the API's
schemas. A new action needs no change here.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from portal.api.compute.server_actions import ACTIONS
from provisioning.compute.actions.base import HostAction, ServerAction
from provisioning.compute.actions.registry import actions
from provisioning.compute.states import VmState
from provisioning.identity.policies.base import ADMIN

FLAVORS = {"nano": "0", "tiny": "1", "small": "2", "large": "4"}
"""Short names of the seeded flavors → their ids; ``large`` needs more disk than any simulated host has."""
IMAGE = "$image"
"""A placeholder for the id of the image: the cloud assigns the id after the plan is created."""
MICROVERSION = (2, 67)
"""The microversion of requests to Compute, and of the schemas of their bodies."""
MORE_OFTEN = {"unlock": 2, "migrate": 4}
"""Weights of actions without a host command of their own; the default is 1."""


@dataclass(frozen=True)
class Call:
    """One key of ``POST /servers/{id}/action``. Several actions may share a key, like soft and hard reboots."""

    name: str
    actions: tuple[ServerAction[Any], ...]

    @property
    def record(self) -> str:
        """Return the name of the action record that an accepted call creates."""
        return self.actions[0].record

    @property
    def by_operator(self) -> bool:
        return self.actions[0].rule_check == ADMIN

    def weight(self, state: str) -> int:
        """Return the weight of the call for a server in this state. Actions that return the server to active have
        the highest weight.
        """
        if not any(isinstance(action, HostAction) for action in self.actions):
            return MORE_OFTEN.get(self.name, 1)
        here = self._beginning_in(state)
        if not here or here[0].task is None:
            return 2 * len(here)
        leads_back = VmState.ACTIVE in here[0].ends.values() and VmState.ACTIVE not in here[0].from_states
        return 24 if leads_back else 6

    def state_after(self, state: str, body: Any = None) -> str:
        """Return the state that a server should have after the call."""
        if isinstance(body, dict) and "state" in body:
            return str(body["state"])
        ends = [end for action in self._beginning_in(state) for end in action.ends.values()]
        return ends[0] or state if ends else state

    def _beginning_in(self, state: str) -> list[HostAction[Any, Any]]:
        return [each for each in self.actions if isinstance(each, HostAction) and state in each.from_states]

    def body(self, chance: random.Random) -> Any:
        """Return a valid body for the key."""
        schema = ACTIONS[self.name].schema
        return example(schema(MICROVERSION) if callable(schema) else schema, chance)


def example(schema: Mapping[str, Any], chance: random.Random, name: str = "") -> Any:
    """Return a value that a JSON schema allows, with its required fields; ``name`` is the name of the value's field."""
    if name == "imageRef":
        return IMAGE
    if name == "flavorRef":
        return chance.choice([*FLAVORS.values()])
    for among in ("oneOf", "anyOf"):
        if among in schema:
            return example(schema[among][0], chance, name)
    if "enum" in schema:
        return chance.choice(schema["enum"])
    types = schema.get("type", "null")
    kind = types if isinstance(types, str) else types[0]
    if kind == "object":
        inner = schema.get("properties", {})
        return {field: example(inner[field], chance, field) for field in schema.get("required", ())}
    if kind == "string":
        return "chaos".ljust(schema.get("minLength", 0), "s")
    return {"integer": max(1, schema.get("minimum", 1)), "boolean": False, "array": []}.get(kind)


def _calls() -> dict[str, Call]:
    named: dict[str, list[ServerAction[Any]]] = {}
    for action in actions.values():
        name = action.api or action.record
        if name in ACTIONS:
            named.setdefault(name, []).append(action)
    return {name: Call(name, tuple(found)) for name, found in named.items()}


CALLS = _calls()
STATES = [state.value for state in VmState if any(call.state_after(state) != state for call in CALLS.values())]
"""The states that at least one action can change."""
