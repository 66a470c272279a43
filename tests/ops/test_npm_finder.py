"""Front-end libraries: from their packages, and only the files that pages need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.staticfiles import finders

from portal.common.npm_finder import NpmFinder


@pytest.fixture
def finder() -> NpmFinder:
    return NpmFinder()


def test_what_the_pages_load_is_found(finder: NpmFinder) -> None:
    template = Path("templates/base.html").read_text() + Path("templates/dashboard/shell.html").read_text()
    names = [part.split("'")[0] for part in template.split("{% static '")[1:]]
    assert len([name for name in names if name.startswith("vendor/")]) >= 6
    for name in names:
        assert finders.find(name), name


@pytest.mark.parametrize(
    "path",
    [
        "vendor/bootstrap/css/bootstrap.css",
        "vendor/htmx/ext/debug.js",
        "vendor/htmx/../package.json",
        "vendor/inter/files/../package.json-wght-normal.woff2",
        "vendor/unknown/x.js",
        "htmx/htmx.min.js",
    ],
)
def test_nothing_else_is_served(finder: NpmFinder, path: str) -> None:
    assert finder.find(path) == []


def test_what_is_listed_is_found_again(finder: NpmFinder) -> None:
    listed = list(finder.list(None))
    assert len(listed) > 10
    for path, storage in listed:
        prefix = storage.prefix  # type: ignore[attr-defined]
        assert finder.find(f"{prefix}/{path}") == storage.path(path)


def test_missing_packages_are_said_with_the_command(settings: Any, tmp_path: Path) -> None:
    settings.BASE_DIR = tmp_path
    (warning,) = NpmFinder().check()
    assert "bootstrap" in warning.msg
    assert "npm ci" in str(warning.hint)
    assert list(NpmFinder().list(None)) == []
