"""A server whose interfaces change while it runs."""

from __future__ import annotations

import pytest

from provisioning.common.context import RequestContext
from provisioning.compute.models import Instance
from tests.support.clouds import Cloud
from tests.support.scripted_agent import ScriptedAgent


@pytest.fixture
def running(cloud: Cloud, alice: RequestContext) -> Instance:
    cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    cloud.run()
    return instance


@pytest.fixture
def agent(cloud: Cloud, running: Instance) -> ScriptedAgent:
    return cloud.agents["kelvin"]
