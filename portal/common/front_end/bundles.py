"""Bundles: one style sheet and one script for all pages, with only those parts of the libraries that pages use.

They are built when static files are collected, from the packages in ``node_modules`` and from ``static``. A class of
Bootstrap or an icon is used if its name is a word in one of the texts in ``NAMING``.
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
    "portal/common": "statuses.py",
    "portal/dashboard": "*.py",
    "provisioning/batches": "*.py",
    "provisioning/compute/actions": "*.py",
    "static/js": "*.js",
}
"""Directories with texts that contain classes and icons; `up.prepare` has the same list."""
STYLES, SCRIPTS = "app.css", "app.js"
OWN_STYLES = (
    "css/novella.css",
    "css/parts.css",
    "css/lists.css",
    "css/pages.css",
    "css/cloud.css",
    "css/graphs.css",
)
LIBRARIES = (
    "htmx.org/dist/htmx.min.js",
    "idiomorph/dist/idiomorph-ext.min.js",
    "@popperjs/core/dist/umd/popper.min.js",
)
OF_BOOTSTRAP = (
    *("util/index", "dom/data", "dom/event-handler", "dom/manipulator", "util/config", "dom/selector-engine"),
    *("base-component", "dropdown"),
)
"""Parts of Bootstrap's script for menus; pages use no other parts."""
OWN_SCRIPTS = ("js/page.js", "js/tray.js", "js/palette.js", "js/clock.js")
SET_BY_LIBRARIES = frozenset({"show"})
"""Classes that Bootstrap's script sets on menus and that no text contains."""
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
"""Wrapper of Bootstrap's parts. Each part reads the preceding parts from the global object and adds itself to it; the
wrapper passes a separate object instead of the global object.
"""
_NOTE = re.compile(r"^ *//.*\n", re.MULTILINE)
_BLOCK = re.compile(r"^ */\*.*?\*/", re.MULTILINE | re.DOTALL)
_OPTIONAL = re.compile(r"font-display:\s*swap")
"""Text does not move when the font arrives: a page that is drawn before it arrives keeps the font of the system."""
_SOURCE_MAP = re.compile(r"//# sourceMappingURL=.*")
_SPACE = re.compile(r"\s*([{};])\s*|(?<=[a-z]:) ")
"""Blanks that are removed from our own style sheets, which have no braces or semicolons in texts."""
_SET = re.compile(r"(--bs-[\w-]+):[^;}]*;?")
_READ = re.compile(r"--bs-[\w-]+(?!:|[\w-])")
"""A property of Bootstrap where it is not set."""
_CLASS = re.compile(r"\.(-?[A-Za-z_][\w-]*)")
_WORD = re.compile(r"[A-Za-z_][\w-]*")
_NAMED = re.compile(r"""["'](?:bi bi-)?([a-z0-9-]+)["']|\bbi-([a-z0-9-]+)|block icon %}([a-z0-9-]+)""")
"""A quoted word, or the name of an icon."""


class Rule(NamedTuple):
    """A statement of a style sheet: the text before its braces and the text in them; ``body`` is None for a statement
    without braces.
    """

    head: str
    body: str | None


def rules(sheet: str) -> Iterator[Rule]:
    """Yield the statements of a style sheet, or of the body of an at-rule."""
    place, start, depth, opened = 0, 0, 0, 0
    for match in re.finditer(r"""[{};]|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|url\([^"')]*\)""", sheet):
        sign, place = match[0], match.end()
        if sign == "{":
            depth += 1
            opened = opened if depth > 1 else match.start()
        elif sign == "}":
            depth -= 1
            if not depth:
                yield Rule(sheet[start:opened].strip(), sheet[opened + 1 : match.start()])
                start = place
        elif sign == ";" and not depth:
            yield Rule(sheet[start : match.start()].strip(), None)
            start = place


def of_used(sheet: str, words: frozenset[str]) -> str:
    """Return a style sheet with only those rules whose classes are all among the words."""
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


def of_read(sheet: str, texts: str) -> str:
    """Return a style sheet without the custom properties of Bootstrap that neither the sheet nor the texts use."""
    read = {*_READ.findall(sheet), *_READ.findall(texts)}
    kept = _SET.sub(lambda match: match[0] if match[1] in read else "", sheet)
    return kept if kept == sheet else of_read(kept, texts)


def _selectors(head: str) -> list[str]:
    """Split at the commas outside brackets."""
    return re.findall(r"(?:\([^()]*(?:\([^()]*\)[^()]*)*\)|\[[^\]]*\]|[^,(\[])+", head)


@cache
def _texts() -> str:
    """Return all texts that may contain a class or an icon."""
    base = Path(settings.BASE_DIR)
    files = (file for folder, names in NAMING.items() for file in sorted((base / folder).rglob(names)))
    return "\n".join(file.read_text() for file in files)


def icons(names: Iterable[str]) -> str:
    """Return a style sheet for icons, each a mask in the colour of its text."""
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
    """Return the style sheet of all pages; its URLs are relative to ``bundles/``."""
    base, words = Path(settings.BASE_DIR), frozenset(_WORD.findall(_texts())) | SET_BY_LIBRARIES
    inter = (_packages() / "@fontsource-variable/inter/index.css").read_text()
    bootstrap = (_packages() / "bootstrap/dist/css/bootstrap.min.css").read_text()
    own = _SPACE.sub(r"\1", "".join((base / "static" / name).read_text() for name in OWN_STYLES))
    parts = [
        _OPTIONAL.sub("font-display:optional", inter.replace("url(./files/", "url(../vendor/inter/files/")),
        of_used(_COMMENT.sub("", bootstrap), words),
        icons(used_icons()),
        own,
    ]
    sheet = re.sub(r"\n\s+", "\n", _COMMENT.sub("", "\n".join(parts)))
    others = "".join(file.read_text() for file in sorted((base / "static/css").glob("*.css")))
    return of_read(sheet, others + scripts() + _texts())


def scripts() -> str:
    """Return the scripts of the dashboard: libraries unchanged, then ours, each with its own scope like a module."""
    base = Path(settings.BASE_DIR)
    libraries = [_SOURCE_MAP.sub("", (_packages() / name).read_text()) for name in LIBRARIES]
    menus = "\n".join(_script(_packages() / f"bootstrap/js/dist/{name}.js") for name in OF_BOOTSTRAP)
    own = [f'(() => {{\n"use strict";\n{_script(base / "static" / name)}\n}})();' for name in OWN_SCRIPTS]
    return ";\n".join([*libraries, _MENUS.format(menus), *own])


def _script(file: Path) -> str:
    """Return a script without comments that begin a line."""
    return _SOURCE_MAP.sub("", _NOTE.sub("", _BLOCK.sub("", file.read_text())))


def _packages() -> Path:
    return Path(settings.BASE_DIR) / "node_modules"


MADE: Mapping[str, Any] = {STYLES: styles, SCRIPTS: scripts}


class _Storage(InMemoryStorage):
    """Generated files for collectstatic, which requires paths although they are not on disk."""

    prefix = "bundles"

    def path(self, name: str) -> str:
        return name


class BundleFinder(BaseFinder):
    """Finds ``bundles/app.css`` and ``bundles/app.js`` for collectstatic, if the packages are installed."""

    def __init__(self, app_names: Iterable[str] | None = None, *args: Any, **kwargs: Any) -> None:
        """Accept the arguments that Django passes to each finder."""
        super().__init__(*args, **kwargs)

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterator[tuple[str, InMemoryStorage]]:
        """Generate and yield the files."""
        storage = _Storage(location="/")
        for name, make in MADE.items() if _packages().is_dir() else ():
            storage.save(name, ContentFile(make()))
            yield name, storage

    def find(self, path: str, find_all: bool = False, **kwargs: Any) -> Any:  # noqa: FBT001, FBT002 - Django's signature
        """Return an empty list: the files are not on disk."""
        return []
