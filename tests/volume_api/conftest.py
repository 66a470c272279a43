"""Who asks the Block Storage API, and in which version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.scripted_agent import ScriptedAgent
from tests.support.standing import derived, standing

V3 = "/volume/v3"


def at(version: str) -> dict[str, str]:
    """The header of a microversion."""
    return {"OpenStack_API_Version": f"volume {version}"}


@pytest.fixture
@derived
def api(people: People) -> Api:
    return Api(people.alice)


@pytest.fixture
@derived
def operator_api(people: People) -> Api:
    return Api(people.operator)


@dataclass
class World:
    """A cloud whose host kelvin has a pool; alice and charlie ask by the API, the host works when told."""

    agent: ScriptedAgent
    alice: Api
    charlie: Api
    operator: Api
    people: People

    def make(self, api: Api | None = None, size: int = 1, **values: Any) -> str:
        """Make a volume and let the host carry it out; return its id."""
        answer = (api or self.alice).post(f"{V3}/volumes", {"volume": {"size": size, **values}}, **at("3.70"))
        assert answer.status_code == 202, answer.content
        self.agent.work()
        return str(answer.json()["volume"]["id"])

    def show(self, volume: str, version: str = "3.70") -> dict[str, Any]:
        shown: dict[str, Any] = self.operator.get(f"{V3}/volumes/{volume}", **at(version)).json()["volume"]
        return shown

    def act(self, volume: str, name: str, argument: Any = None, *, api: Api | None = None) -> int:
        """Ask for an action; return the status."""
        answer = (api or self.alice).post(f"{V3}/volumes/{volume}/action", {name: argument}, **at("3.70"))
        self.agent.work()
        return int(answer.status_code)


@pytest.fixture
@standing
def world(people: People) -> World:
    cloud = Cloud.make()
    agent = cloud.add_host("kelvin")
    agent.serve()
    return World(agent, Api(people.alice), Api(people.charlie), Api(people.operator), people)
