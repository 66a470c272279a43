"""Build the documentation as a site: the Markdown pages as they are, with search and with all assets local.

``docs/README.md`` lists the pages, a heading for each group of readers. The navigation follows that list, and the
decisions follow ``docs/decisions/README.md``.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

CHECKOUT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
LISTS = ("docs/README", "docs/decisions/README")
ASSET = re.compile(
    r"""<(?:link|script|img|iframe|source)\b[^>]*?\b(?:href|src)="((?:https?:)?//[^"]+)|url\(["']?((?:https?:)?//[^)]+)"""
)
"""An asset that a browser would fetch from another site."""

project = "Novella"
version = release = PROJECT["version"]
copyright = "the Novella contributors, Apache License 2.0"  # noqa: A001 # Sphinx's name
html_show_copyright = False

# The source folder is the checkout, so that links to README.md and CHANGELOG.md work here as on a code host.
root_doc = "docs/README"
include_patterns = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs/**"]
exclude_patterns = [
    ".*",
    "node_modules",
    "var",
    "tests",
    "portal",
    "provisioning",
    "compute_agent",
    "static",
    "templates",
]
source_suffix = {".md": "markdown"}
extensions = ["myst_parser"]
myst_heading_anchors = 6
suppress_warnings = ["misc.highlighting_failure"]  # Pygments does not read all of HCL

html_theme = "furo"
html_title = f"Novella {release}"
html_extra_path = ["_site"]
html_copy_source = False
html_theme_options = {"footer_icons": []}


def add_navigation(_app: Sphinx, page: str, source: list[str]) -> None:
    """Append to a list of pages one hidden table of contents for each of its headings.

    A page that is not in a list has no place in the navigation, which Sphinx reports.
    """
    if page not in LISTS:
        return
    for group in re.split(r"^#{1,2} ", source[0], flags=re.MULTILINE)[1:]:
        entries = re.findall(r"^\* \[(.+?)\]\(([^):#]+)\.md\)", group, re.MULTILINE)
        caption = group.partition("\n")[0]
        listed = "\n".join(f"{name.replace('`', '')} <{path}>" for name, path in entries)
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{listed}\n```\n"


def refuse_outside_assets(app: Sphinx, exception: Exception | None) -> None:
    """Fail a build with an asset that is not in the site: it is read where there is no internet."""
    if exception is not None:
        return
    site = Path(app.outdir)
    for path in (*site.rglob("*.html"), *site.rglob("*.css")):
        if found := ASSET.search(path.read_text()):
            raise ExtensionError(f"{path.relative_to(site)} loads {found[1] or found[2]}")


def setup(app: Sphinx) -> None:
    """Register the event handlers."""
    app.connect("source-read", add_navigation)
    app.connect("build-finished", refuse_outside_assets)
