"""Print the tests that failed in the last run; exit code 1 when they are more than may be unsteady, or none."""

import json
import sys
from pathlib import Path

KEPT = Path(__file__).resolve().parents[2] / ".pytest_cache/v/cache/lastfailed"
"""Where pytest keeps their names."""
MOST = 3


def main() -> int:
    failed = sorted(json.loads(KEPT.read_text())) if KEPT.exists() else []
    print("\n".join(f"  {name}" for name in failed))
    return 0 if 0 < len(failed) <= MOST else 1


if __name__ == "__main__":
    sys.exit(main())
