"""The style sheet and the script of every page: one file of each, with no more of the libraries than pages use.

Made when static files are collected, of the packages in ``node_modules`` and of ``static``.  A class of Bootstrap or an
icon is used when its name is a word of one of the texts in ``NAMING``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from django.conf import settings
from django.contrib.staticfiles.finders import BaseFinder
from django.core.files.base import ContentFile
from django.core.files.storage import InMemoryStorage

NAMING = {
    "templates": "*.html",
    "portal/dashboard": "*.py",
    "provisioning/compute/actions": "*.py",
    "static/js": "*.js",
}
"""Where the texts are that name classes and icons; `up.prepare` knows them, too."""
STYLES, SCRIPTS = "app.css", "app.js"
OWN_STYLES = ("css/novella.css", "css/parts.css", "css/pages.css")
LIBRARIES = (
    "htmx.org/dist/htmx.min.js",
    "idiomorph/dist/idiomorph-ext.min.js",
    "@popperjs/core/dist/umd/popper.min.js",
)
OF_BOOTSTRAP = (
    *("util/index", "dom/data", "dom/event-handler", "dom/manipulator", "util/config", "dom/selector-engine"),
    *("base-component", "dropdown"),
)
"""The parts that menus need; pages use nothing else of its script."""
OWN_SCRIPTS = ("js/page.js", "js/bulk.js", "js/clock.js")
SET_BY_LIBRARIES = frozenset({"show"})
"""Classes that no text of ours names: Bootstrap's script sets them at menus."""
ICON = """
.bi::before{content:"";display:inline-block;width:1em;height:1em;vertical-align:-.125em;background:currentColor;\
--m:var(--i,linear-gradient(#0000,#0000)) center/contain no-repeat;-webkit-mask:var(--m);mask:var(--m)}
@media (forced-colors:active){.bi::before{forced-color-adjust:none;background:CanvasText}}
"""
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_MENUS = """window.bootstrap = ((globalThis) => {{
{}
return {{ Dropdown: globalThis.Dropdown }};
}})({{ "@popperjs/core": Popper }})"""
"""Each part takes those before it from the global object, and puts itself there: here they have one of their own."""
_NOTE = re.compile(r"^ *//.*\n", re.MULTILINE)
_BLOCK = re.compile(r"^ */\*.*?\*/", re.MULTILINE | re.DOTALL)
_SOURCE_MAP = re.compile(r"//# sourceMappingURL=.*")
_SPACE = re.compile(r"\s*([{};])\s*|(?<=[a-z]:) ")
"""In a style sheet of ours, where no text has a brace or a semicolon."""
_CLASS = re.compile(r"\.(-?[A-Za-z_][\w-]*)")
_WORD = re.compile(r"[A-Za-z_][\w-]*")
_NAMED = re.compile(r"""["'](?:bi bi-)?([a-z0-9-]+)["']|\bbi-([a-z0-9-]+)|block icon %}([a-z0-9-]+)""")
"""A word in quotes, or in the place of an icon."""


class Rule(NamedTuple):
    """A statement of a style sheet: what stands before its braces and in them; without braces ``body`` is None."""

    head: str
    body: str | None


def rules(sheet: str) -> Iterator[Rule]:
    """Yield the statements of a style sheet, or of the body of an at-rule."""
    place, start, depth, opened = 0, 0, 0, 0
    for found in re.finditer(r"""[{};]|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|url\([^"')]*\)""", sheet):
        sign, place = found[0], found.end()
        if sign == "{":
            depth += 1
            opened = opened if depth > 1 else found.start()
        elif sign == "}":
            depth -= 1
            if not depth:
                yield Rule(sheet[start:opened].strip(), sheet[opened + 1 : found.start()])
                start = place
        elif sign == ";" and not depth:
            yield Rule(sheet[start : found.start()].strip(), None)
            start = place


def of_used(sheet: str, words: frozenset[str]) -> str:
    """Return a style sheet without the rules whose classes are not all among the words."""
    kept = []
    for head, body in rules(sheet):
        if body is None:
            kept.append(f"{head};")
        elif head.startswith(("@media", "@supports", "@layer")):
            inner = of_used(body, words)
            kept += [f"{head}{{{inner}}}"] if inner else []
        elif head.startswith("@"):
            kept.append(f"{head}{{{body}}}")
        else:
            selectors = [each for each in _selectors(head) if words.issuperset(_CLASS.findall(each))]
            kept += [f"{','.join(selectors)}{{{body}}}"] if selectors else []
    return "".join(kept)


def _selectors(head: str) -> list[str]:
    """Divide at the commas outside of brackets."""
    return re.findall(r"(?:\([^()]*(?:\([^()]*\)[^()]*)*\)|\[[^\]]*\]|[^,(\[])+", head)


@cache
def _texts() -> str:
    """Return all texts of ours that may name a class or an icon."""
    base = Path(settings.BASE_DIR)
    files = (file for folder, names in NAMING.items() for file in sorted((base / folder).rglob(names)))
    return "\n".join(file.read_text() for file in files)


def icons(names: Iterable[str]) -> str:
    """Return a style sheet for icons, each a mask of the colour of its text."""
    folder = _packages() / "bootstrap-icons/icons"
    drawn = [f'.bi-{name}{{--i:url("data:image/svg+xml,{_data(folder / f"{name}.svg")}")}}' for name in names]
    return ICON + "\n".join(drawn)


def used_icons() -> list[str]:
    """Return the names of the icons that pages may show."""
    known = {file.stem for file in (_packages() / "bootstrap-icons/icons").glob("*.svg")}
    return sorted(known & {name for each in _NAMED.findall(_texts()) for name in each})


def _data(file: Path) -> str:
    text = re.sub(r' (?:width|height|fill|class)="[^"]*"', "", file.read_text(), count=4)
    return quote(re.sub(r"\s*\n\s*", "", text).replace('"', "'"), safe=" '/=:")


def styles() -> str:
    """Return the style sheet of every page; its addresses are seen from ``bundles/``."""
    base, words = Path(settings.BASE_DIR), frozenset(_WORD.findall(_texts())) | SET_BY_LIBRARIES
    inter = (_packages() / "@fontsource-variable/inter/index.css").read_text()
    bootstrap = (_packages() / "bootstrap/dist/css/bootstrap.min.css").read_text()
    own = _SPACE.sub(r"\1", "".join((base / "static" / name).read_text() for name in OWN_STYLES))
    parts = [
        inter.replace("url(./files/", "url(../vendor/inter/files/"),
        of_used(_COMMENT.sub("", bootstrap), words),
        icons(used_icons()),
        own,
    ]
    return re.sub(r"\n\s+", "\n", _COMMENT.sub("", "\n".join(parts)))


def scripts() -> str:
    """Return the scripts of the dashboard: libraries as they are, then ours, each with names of its own as a module."""
    base = Path(settings.BASE_DIR)
    libraries = [_SOURCE_MAP.sub("", (_packages() / name).read_text()) for name in LIBRARIES]
    menus = "\n".join(_script(_packages() / f"bootstrap/js/dist/{name}.js") for name in OF_BOOTSTRAP)
    own = [f'(() => {{\n"use strict";\n{_script(base / "static" / name)}\n}})();' for name in OWN_SCRIPTS]
    return ";\n".join([*libraries, _MENUS.format(menus), *own])


def _script(file: Path) -> str:
    """Return a script without what is a comment by its beginning of a line."""
    return _SOURCE_MAP.sub("", _NOTE.sub("", _BLOCK.sub("", file.read_text())))


def _packages() -> Path:
    return Path(settings.BASE_DIR) / "node_modules"


MADE: Mapping[str, Any] = {STYLES: styles, SCRIPTS: scripts}


class _Storage(InMemoryStorage):
    """Files that were made for the collection; they have no place on a disk, but collectstatic names one."""

    prefix = "bundles"

    def path(self, name: str) -> str:
        return name


class BundleFinder(BaseFinder):
    """Finds ``bundles/app.css`` and ``bundles/app.js`` for collectstatic, where the packages are installed."""

    def __init__(self, app_names: Iterable[str] | None = None, *args: Any, **kwargs: Any) -> None:
        """Take what Django gives to each finder."""
        super().__init__(*args, **kwargs)

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterator[tuple[str, InMemoryStorage]]:
        """Make the files, and yield them."""
        storage = _Storage(location="/")
        for name, make in MADE.items() if _packages().is_dir() else ():
            storage.save(name, ContentFile(make()))
            yield name, storage

    def find(self, path: str, find_all: bool = False, **kwargs: Any) -> Any:  # noqa: FBT001, FBT002 - Django's signature
        """Return nothing: they are not files."""
        return []
