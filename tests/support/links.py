"""Check the links of all Markdown pages: files and anchors that they name exist, and modules in backticks.

``python -m tests.support.links`` prints each broken link as ``FILE:LINE: TARGET: reason`` and fails if there is one.
Addresses of other sites are not opened.
"""

from __future__ import annotations

import functools
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("*.md", "docs/**/*.md", ".github/**/*.md")
FENCE = re.compile(r"^ *(```|~~~)")
HEADING = re.compile(r"^#{1,6} +(.+?)(?: +#+)?$")
CODE = re.compile(r"(`+).+?\1")
LINK = re.compile(r"\]\(<?([^()<>\s]+(?:\([^()\s]*\)[^()\s]*)?)>?(?: +\"[^\"]*\")?\)")
ANCHOR = re.compile(r"<a (?:id|name)=\"([^\"]+)\"")
MODULE = re.compile(r"`((?:bin|compute_agent|portal|provisioning|tests|tools)/[a-z0-9_/]+\.py)`")
OUTSIDE = re.compile(r"^[a-z][a-z0-9+.-]*:|^//")


def lines_of(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines outside fenced blocks, numbered from 1."""
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        match = FENCE.match(line)
        if match and fence in ("", match[1]):
            fence = "" if fence else match[1]
        elif not fence:
            yield number, line


def slug(heading: str) -> str:
    """Return the anchor that code hosts and MyST give a heading."""
    plain = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
    return re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")


def anchors_in(text: str) -> set[str]:
    """Return the anchors of a page; a heading that occurs again has ``-1``, ``-2`` … behind its anchor."""
    result: set[str] = set()
    seen: Counter[str] = Counter()
    for _, line in lines_of(text):
        result.update(ANCHOR.findall(line))
        if heading := HEADING.match(line):
            name = slug(heading[1])
            result.add(f"{name}-{seen[name]}" if seen[name] else name)
            seen[name] += 1
    return result


@functools.cache
def anchors(path: Path) -> set[str]:
    """Return the anchors of the page in a file."""
    return anchors_in(path.read_text())


def fault(page: Path, target: str) -> str | None:
    """Return why a link of ``page`` is broken; None if it is not."""
    name, _, anchor = unquote(target).partition("#")
    path = (page.parent / name).resolve() if name else page
    if not path.is_file():
        return "a folder; name a file in it" if path.is_dir() else "no such file"
    if anchor and path.suffix == ".md" and anchor not in anchors(path):
        return "no such heading"
    return None


def broken(page: Path) -> Iterator[str]:
    """Yield the broken links of a page, and the modules that do not exist."""
    for number, line in lines_of(page.read_text()):
        for module in MODULE.findall(line):
            if not (ROOT / module).is_file():
                yield f"{page}:{number}: {module}: no such file"
        for target in LINK.findall(CODE.sub("", line)):
            if not OUTSIDE.match(target) and (reason := fault(page, target)):
                yield f"{page}:{number}: {target}: {reason}"


def pages(root: Path = ROOT) -> list[Path]:
    """Return the Markdown pages below ``root`` that a reader opens."""
    return sorted({path for pattern in PAGES for path in root.glob(pattern)})


def main() -> int:
    """Print the broken links of the checkout; return the exit status."""
    result = [line.removeprefix(f"{ROOT}/") for page in pages() for line in broken(page)]
    print("\n".join(result) or f"the links of {len(pages())} pages are whole")
    return bool(result)


if __name__ == "__main__":
    sys.exit(main())
