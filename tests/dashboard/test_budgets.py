"""A first visit of a page stays within budgets: requests, and bytes as they are sent, compressed."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from django.contrib.staticfiles import finders
from django.test import Client

from tests.support.cast import Person
from tests.support.clouds import Cloud

ASSET = re.compile(r'(?:src|href)="/static/([^"]+\.(?:js|css|svg))"')
KIB = 1024


@pytest.mark.parametrize("path", ["/", "/instances/", "/instances/launch/", "/images/", "/volumes/", "/networks/"])
def test_a_first_visit_is_within_budget(at_alice: Client, alice: Person, cloud: Cloud, path: str) -> None:
    cloud.launch(alice.context)
    answer = at_alice.get(path, headers={"Accept-Encoding": "gzip"})
    assert answer["Content-Encoding"] == "gzip"
    assert len(answer.content) < 16 * KIB
    names = set(ASSET.findall(gzip.decompress(answer.content).decode()))
    assert 8 < len(names) <= 18
    found = [finders.find(name) for name in names]
    assert sum(len(gzip.compress(Path(str(each)).read_bytes())) for each in found) < 180 * KIB
