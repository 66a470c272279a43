"""Serves an allow-list of files from ``node_modules``: front-end libraries are used from their packages.

`portal.common.front_end.bundles` has the files that every page loads.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.staticfiles.finders import BaseFinder
from django.core.checks import CheckMessage, Warning  # noqa: A004 - Django's name of the level
from django.core.files.storage import FileSystemStorage


@dataclass(frozen=True)
class Package:
    """The files of a package that pages may load: a directory in ``node_modules`` and patterns."""

    folder: str
    patterns: tuple[str, ...]

    def offers(self, path: str) -> bool:
        """Whether the file at ``path``, relative to the directory, is on the list."""
        return any(fnmatch(path, pattern) for pattern in self.patterns)


PACKAGES: dict[str, Package] = {
    "novnc": Package("@novnc/novnc", ("core/*.js", "vendor/*.js")),
    "inter": Package("@fontsource-variable/inter", ("index.css", "files/inter-*-wght-normal.woff2")),
    "xterm": Package("@xterm/xterm", ("css/xterm.css", "lib/xterm.mjs")),
    "xterm-fit": Package("@xterm/addon-fit/lib", ("addon-fit.mjs",)),
    "swagger-ui": Package("swagger-ui-dist", ("swagger-ui.css*", "swagger-ui-bundle.js")),
}
"""Prefix below ``static/vendor/`` → package. Source maps are included, as the manifest storage resolves them."""


class NpmFinder(BaseFinder):
    """Finds ``vendor/<prefix>/<file>`` in the installed packages."""

    def __init__(self, app_names: Iterable[str] | None = None, *args: Any, **kwargs: Any) -> None:
        """Create one storage for each package; a package that is not installed has no files."""
        super().__init__(*args, **kwargs)
        self.root = Path(settings.BASE_DIR) / "node_modules"
        self.storages: dict[str, FileSystemStorage] = {}
        for prefix, package in PACKAGES.items():
            storage = FileSystemStorage(location=self.root / package.folder)
            storage.prefix = f"vendor/{prefix}"  # type: ignore[attr-defined]  # read by collectstatic
            self.storages[prefix] = storage

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        """Warn if the libraries are missing, with the command to install them; only the web pages need them."""
        missing = [package.folder for package in PACKAGES.values() if not (self.root / package.folder).is_dir()]
        if not missing:
            return []
        return [
            Warning(
                f"Front-end packages are not installed: {', '.join(missing)}.",
                hint="Run: npm ci --ignore-scripts",
                id="novella.W001",
            )
        ]

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterator[tuple[str, FileSystemStorage]]:
        """Yield (path inside the package, storage) of every file on the list."""
        for prefix, storage in self.storages.items():
            root = Path(storage.location)
            for file in sorted(root.rglob("*")):
                path = file.relative_to(root).as_posix()
                if PACKAGES[prefix].offers(path) and file.is_file():
                    yield path, storage

    def find(self, path: str, find_all: bool = False, **kwargs: Any) -> Any:  # noqa: FBT001, FBT002 - Django's signature
        """Return the file's path, or a list if ``find_all``; an empty list if the file is not on the list."""
        for prefix, storage in self.storages.items():
            start = f"vendor/{prefix}/"
            inner = path.removeprefix(start)
            if inner == path or not PACKAGES[prefix].offers(inner):
                continue
            file = Path(storage.path(inner))
            if file.is_file():
                return [str(file)] if find_all else str(file)
        return []
