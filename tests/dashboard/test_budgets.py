"""A first visit of a page stays within budgets: requests, and bytes as they are sent, compressed."""

from __future__ import annotations

import gzip
import re
from functools import cache
from pathlib import Path

import pytest
from django.test import Client

from provisioning.catalogue.services import refresh as read_catalogue
from tests.dashboard.conftest import SignedIn
from tests.support.cast import Person
from tests.support.clouds import Cloud
from tests.support.pages import static_file

ASSET = re.compile(r'(?:src|href)="/static/([^"]+\.(?:js|css|svg))"')
FONT = Path("node_modules/@fontsource-variable/inter/files/inter-latin-wght-normal.woff2")


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [
        *("/", "/instances/", "/instances/{server}/", "/instances/{server}/console/", "/instances/launch/"),
        *("/images/", "/images/catalogue/", "/volumes/", "/networks/"),
    ],
)
def test_a_first_visit_is_within_budget(at_alice: Client, alice: Person, cloud: Cloud, path: str) -> None:
    server = cloud.launch(alice.context)
    read_catalogue()
    answer = at_alice.get(path.format(server=server.id), headers={"Accept-Encoding": "gzip"})
    assert answer["Content-Encoding"] == "gzip"
    names = set(ASSET.findall(gzip.decompress(answer.content).decode()))
    assert 3 < len(names) <= 6, "with the page and the font they are 8 requests"
    sent = [len(answer.content), FONT.stat().st_size, *map(compressed, names)]
    assert len(answer.content) < 12_000
    assert sum(sent) < 145_000, "with their headers they are 150 kB"


@pytest.mark.parametrize("path", ["/cloud/", "/hosts/", "/pools/", "/migrations/", "/usage/"])
def test_a_first_visit_of_an_operator_is_within_budget(
    signed_in: SignedIn, operator: Person, cloud: Cloud, path: str
) -> None:
    answer = signed_in(operator).get(path, headers={"Accept-Encoding": "gzip"})
    names = set(ASSET.findall(gzip.decompress(answer.content).decode()))
    assert 3 < len(names) <= 6
    assert len(answer.content) < 12_000
    assert len(answer.content) + FONT.stat().st_size + sum(map(compressed, names)) < 145_000


@cache
def compressed(name: str) -> int:
    """Return how many bytes of an asset are sent."""
    text = static_file(name)
    assert text is not None
    return len(gzip.compress(text))
