"""Servers on their way onto the shelf, on it, and off their host."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import override_settings

from provisioning.common.context import RequestContext
from provisioning.compute.actions.shelve import Offload, Shelve
from provisioning.compute.models import Instance
from tests.core.shelve.shelves import OFFLOADED
from tests.support.clouds import Cloud, state_of
from tests.support.scripted_agent import ScriptedAgent
from tests.support.standing import standing

STAYING = -1
"""A shelved server stays on its host until it is offloaded."""


@pytest.fixture(autouse=True)
def _kept_on_its_host(settings: Any) -> None:
    """Servers stay on their host until a test says otherwise."""
    settings.SHELVED_OFFLOAD_TIME = STAYING


@pytest.fixture
@standing
def h1(cloud: Cloud) -> ScriptedAgent:
    return cloud.add_host("h1")


@pytest.fixture
@standing
def server(cloud: Cloud, h1: ScriptedAgent, alice: RequestContext) -> Instance:
    return cloud.running(alice)


@pytest.fixture
@standing
def shelved(cloud: Cloud, server: Instance, alice: RequestContext) -> Instance:
    with override_settings(SHELVED_OFFLOAD_TIME=STAYING):
        Shelve.begin(alice, server.id)
        cloud.run()
    assert state_of(server) == ("shelved", None)
    return cloud.fresh(server)


@pytest.fixture
@standing
def offloaded(cloud: Cloud, shelved: Instance, operator: RequestContext) -> Instance:
    Offload.begin(operator, shelved.id)
    cloud.run()
    assert state_of(shelved) == OFFLOADED
    return cloud.fresh(shelved)
