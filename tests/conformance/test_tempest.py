"""bin/conformance with the suite itself, on a cloud of its own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.one_machine import CHECKOUT, ENVIRONMENT


@pytest.mark.deep
@pytest.mark.timeout(1800)
def test_some_of_tempest_on_simulated_hosts(tmp_path: Path) -> None:
    """Installs the suite once for a checkout, from the package index."""
    kept = CHECKOUT / ".cache/conformance/smoke/results.json"
    kept.unlink(missing_ok=True)
    done = subprocess.run(
        [CHECKOUT / "bin/conformance", "smoke", "--match", r"volume|flavors|identity\.v3|list_servers"],
        cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    result = json.loads(kept.read_text())
    assert result["about"]["hosts"] == "simulated"
    assert sum(each["verdict"] == "passed" for each in result["results"]) > 10
