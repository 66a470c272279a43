"""Each picture of the documentation is shown on a page, and a test takes it."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from django.conf import settings

BASE = Path(settings.BASE_DIR)
SHOWN = re.compile(r"\]\((?:docs/)?images/([\w-]+)\.png\)")
TAKEN = re.compile(r'\b(?:picture|show)\([\w.]+, "([\w-]+)"')


def test_pictures_are_shown_and_taken_once() -> None:
    files = {file.stem for file in (BASE / "docs/images").glob("*.png")}
    pages = [BASE / "README.md", *(BASE / "docs").rglob("*.md")]
    assert {name for page in pages for name in SHOWN.findall(page.read_text())} == files
    taken = Counter(name for file in (BASE / "tests/e2e").glob("*.py") for name in TAKEN.findall(file.read_text()))
    assert {name: taken[name] for name in files} == dict.fromkeys(files, 1)
