"""Front-end libraries: from their packages, and only the files that pages need."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from django.contrib.staticfiles import finders

from portal.common.front_end import bundles
from portal.common.front_end.npm_finder import NpmFinder
from provisioning.compute.actions.registry import with_buttons


@pytest.fixture
def finder() -> NpmFinder:
    return NpmFinder()


def test_what_the_pages_load_is_found(finder: NpmFinder) -> None:
    template = Path("templates/base.html").read_text() + Path("templates/dashboard/shell.html").read_text()
    names = [part.split("'")[0] for part in template.split("{% static '")[1:]]
    assert len(names) >= 5
    for name in names:
        assert finders.find(name) or name.removeprefix("bundles/") in bundles.MADE, name


@pytest.mark.parametrize(
    "path",
    [
        "vendor/xterm/css/other.css",
        "vendor/xterm/../package.json",
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


def test_missing_packages_are_reported_with_the_command(settings: Any, tmp_path: Path) -> None:
    settings.BASE_DIR = tmp_path
    (warning,) = NpmFinder().check()
    assert "novnc" in warning.msg
    assert "npm ci" in str(warning.hint)
    assert list(NpmFinder().list(None)) == []
    assert list(bundles.BundleFinder().list(None)) == []


def test_the_bundles_are_collected_with_what_they_need() -> None:
    made = {path: storage.open(path).read() for path, storage in bundles.BundleFinder().list(None)}
    assert set(made) == {bundles.STYLES, bundles.SCRIPTS}
    assert b"url(../vendor/inter/files/inter-latin-wght-normal.woff2)" in made[bundles.STYLES]
    assert made[bundles.SCRIPTS].index(b"var htmx=") < made[bundles.SCRIPTS].index(b'"use strict";')


def test_rules_of_classes_that_no_page_has_are_left_out() -> None:
    sheet = (
        '@charset "utf-8";:root{--a:url("data:x;{}")}.used,.un-used:hover{color:red}'
        "@media (min-width:1px){.unused{top:0}.used:not(.unused,.other) a{top:1px}p{top:2px}}"
        "@media print{.unused{top:0}}@keyframes k{from{top:0}to{top:1px}}"
    )
    assert bundles.of_used(sheet, frozenset({"used"})) == (
        '@charset "utf-8";:root{--a:url("data:x;{}")}.used{color:red}@media (min-width:1px){p{top:2px}}'
        "@keyframes k{from{top:0}to{top:1px}}"
    )


ICONS = [
    "plus-lg",
    "compass",
    "pause-fill",
    "camera",
    "shield",
    *(each.button.icon for each in with_buttons() if each.button),
]


def test_icons_of_pages_scripts_forms_and_actions_are_drawn() -> None:
    assert set(ICONS) <= set(bundles.used_icons())
    (name, *_) = ICONS
    assert f".bi-{name}{{--i:url(" in bundles.icons([name])
    assert "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'>" in unquote(bundles.icons([name]))


def test_properties_of_bootstrap_that_nothing_reads_are_left_out() -> None:
    sheet = ":root{--bs-a:1;--bs-b:var(--bs-a);--bs-c:2;--bs-d:var(--bs-e);--bs-e:3}p{color:var(--bs-b)}"
    script = 'getPropertyValue("--bs-c")'
    assert bundles.of_read(sheet, script) == ":root{--bs-a:1;--bs-b:var(--bs-a);--bs-c:2;}p{color:var(--bs-b)}"
