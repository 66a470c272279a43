"""Print the tests that failed in the last run, or (``--files``) their files; exit code 1 when none may be tried again.

Tests of one file share guests and databases: what one of them breaks, the next ones may find broken.
"""

import json
import sys
from pathlib import Path

KEPT = Path(__file__).resolve().parents[2] / ".pytest_cache/v/cache/lastfailed"
"""Where pytest keeps their names."""
MOST = 6
"""Files that may be unsteady in one run."""


def main(*arguments: str) -> int:
    failed = sorted(json.loads(KEPT.read_text())) if KEPT.exists() else []
    files = sorted({name.partition("::")[0] for name in failed})
    print("\n".join(files if "--files" in arguments else [f"  {name}" for name in failed]))
    return 0 if 0 < len(files) <= MOST else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
