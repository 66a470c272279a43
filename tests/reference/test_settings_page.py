"""docs/settings.md describes every setting; ``WRITE_PAGES=1`` generates it."""

from __future__ import annotations

import os
import re
from itertools import chain

from tests.reference.settings_page import CHECKOUT, described, page


def test_the_page_describes_every_setting_once() -> None:
    path = CHECKOUT / "docs/settings.md"
    if os.environ.get("WRITE_PAGES"):
        path.write_text(page())
    assert path.read_text() == page(), "run this test with WRITE_PAGES=1"
    declared = chain(
        (CHECKOUT / "portal/settings").glob("*.py"),
        (CHECKOUT / "provisioning").glob("**/settings.py"),
        [CHECKOUT / "portal/environment.py"],
    )
    names = {name for path in declared for name in re.findall(r'"(NOVELLA_\w+)"', path.read_text())}
    assert sorted(described(page())) == sorted(names)
