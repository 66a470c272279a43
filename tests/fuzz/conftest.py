"""The world that the table of routes uses, and what EC2 calls it."""

from __future__ import annotations

import pytest

from tests.ec2_api.things import Things, make_things
from tests.security.conftest import World, made_world, world
from tests.support.cast import People

__all__ = ["made_world", "world"]


@pytest.fixture
def things(people: People, world: World) -> Things:
    return make_things(people, world)
