"""The requests of the samples: one module per part of an API, one function per resource."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.samples.recorder import Scene
from tests.samples.scenes import (
    actions,
    catalog,
    hosts,
    images,
    metadefs,
    microversions,
    network_cloud,
    network_groups,
    networks,
    proxies,
    routers,
    server_parts,
    servers,
    volume_cloud,
    volume_copies,
    volume_types,
    volumes,
)

SCENES: dict[tuple[str, str], Callable[[Scene, pytest.MonkeyPatch], None]] = {
    **{
        ("compute", name): scene
        for module in (servers, actions, server_parts, catalog, hosts, proxies, microversions)
        for name, scene in module.SCENES.items()
    },
    **{("image", name): scene for module in (images, metadefs) for name, scene in module.SCENES.items()},
    **{
        ("network", name): scene
        for module in (networks, routers, network_groups, network_cloud)
        for name, scene in module.SCENES.items()
    },
    **{
        ("volume", name): scene
        for module in (volumes, volume_copies, volume_types, volume_cloud)
        for name, scene in module.SCENES.items()
    },
}
