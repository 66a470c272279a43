"""Reads a subunit stream and writes a JSON line for each test. The suites' own Python runs it, which has subunit."""

from __future__ import annotations

import json
import sys
from typing import Any

import testtools
from subunit import ByteStreamToStreamResult

WORDS = {"success": "passed", "xfail": "passed", "skip": "skipped"}


def row(test: dict[str, Any]) -> dict[str, Any]:
    """Return a test's line with the fields of ``results.Result``."""
    began, ended = test["timestamps"]
    verdict = WORDS.get(test["status"], "failed")
    details = {
        name: content.as_text() for name, content in test["details"].items() if content.content_type.type == "text"
    }
    detail = details.get("reason") or "\n".join(text for name, text in sorted(details.items()) if "traceback" in name)
    return {
        "test": test["id"],
        "verdict": verdict,
        "seconds": round((ended - began).total_seconds(), 3) if began and ended else 0.0,
        "detail": detail if detail or verdict == "passed" else "\n".join(details.values()),
    }


def main() -> None:
    def show(test: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(row(test)) + "\n")

    listener = testtools.StreamToDict(show)
    listener.startTestRun()
    ByteStreamToStreamResult(sys.stdin.buffer, non_subunit_name="stdout").run(listener)
    listener.stopTestRun()


if __name__ == "__main__":
    main()
