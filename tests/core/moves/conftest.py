"""A server on one of two hosts."""

from __future__ import annotations

import pytest

from provisioning.common.context import RequestContext
from provisioning.compute.models import Instance
from tests.support.clouds import Cloud
from tests.support.standing import standing


@pytest.fixture
@standing
def running(cloud: Cloud, alice: RequestContext) -> Instance:
    cloud.add_host("h1", documents=True)
    instance = cloud.running(alice)
    cloud.add_host("h2", documents=True)
    return instance
