"""A server whose interfaces change while it runs."""

from __future__ import annotations

import pytest

from provisioning.common.context import RequestContext
from provisioning.compute.models import Instance
from tests.support.clouds import Cloud
from tests.support.scripted_agent import ScriptedAgent
from tests.support.standing import derived, standing


@pytest.fixture
@standing
def running(cloud: Cloud, alice: RequestContext) -> Instance:
    cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    cloud.run()
    return instance


@pytest.fixture
@derived
def agent(cloud: Cloud, running: Instance) -> ScriptedAgent:
    return cloud.agents["kelvin"]
