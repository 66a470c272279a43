"""Measures the share of mutants that the tests of a tier kill: ``python -m tools.mutants --tier landing``.

A mutant is the program with one small change in a chosen function. It is killed if a test fails or takes too long. If
it survives, the tests do not detect the change, or the change has no effect.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tools.mutants.making import Mutant, mutants
from tools.mutants.targets import TARGETS, Target

OWN = Path(__file__).resolve().parents[2]
MOST = 25
OF_MACHINE = "postgresql or ceph or libvirt or compat or e2e"
"""Marks of tests that need more than Python. Only the deep tier runs them, because they take minutes for
each mutant.
"""
TIERS = {"quick": f"not ({OF_MACHINE})", "landing": f"not ({OF_MACHINE})", "deep": ""}


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"(all) {', '.join(TARGETS)}")
    parser.add_argument("--tier", choices=TIERS, default="landing", help="(landing)")
    parser.add_argument("--most", type=int, default=MOST, metavar="N", help=f"mutants of a target ({MOST})")
    parser.add_argument("--checkout", type=Path, default=OWN, help="another checkout whose code and tests are asked")
    parser.add_argument("--out", type=Path, metavar="FILE", help="add a JSON line for each mutant")
    parser.add_argument("--against", type=Path, metavar="FILE", help="name mutants that were killed in such a file")
    parser.add_argument("--list", action="store_true", help="only show the mutants")
    given = parser.parse_args()
    if unknown := sorted({*given.targets} - TARGETS.keys()):
        parser.error(f"there is no target {', '.join(unknown)}")
    return given


def verdicts(checkout: Path, target: Target, made: list[Mutant], tier: str, folder: Path) -> list[dict[str, Any]]:
    """Run the tests for each mutant. Raises SystemExit if they fail without a mutant."""
    asked, answered = folder / f"{target.name}.json", folder / f"{target.name}.jsonl"
    module = target.path.removesuffix(".py").replace("/", ".")
    wanted = {"module": module, "path": str(checkout / target.path), "mutants": [asdict(mutant) for mutant in made]}
    asked.write_text(json.dumps(wanted))
    tests = [test for test in target.tests if (checkout / test).exists()]
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-x", "-p", "no:cacheprovider"]
    command += ["-p", "tools.mutants.forks", "--mutants", str(asked), "--verdicts", str(answered)]
    command += ["--tier", tier, "-m", TIERS[tier]]
    path = os.pathsep.join(filter(None, [str(OWN), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [*command, *tests],
        cwd=checkout,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    found = [json.loads(line) for line in answered.read_text().splitlines()] if answered.exists() else []
    log = Path(f"{answered}.log")
    if not found or found[0]["status"] != 0 or len(found) <= len(made):
        log_end = log.read_text()[-3000:] if log.exists() else ""
        raise SystemExit(
            f"{target.name}: the tests do not pass by themselves.\n{log_end}\n{done.stdout[-2000:]}{done.stderr}"
        )
    return found[1:]


def rows(checkout: Path, target: Target, given: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    made = mutants((checkout / target.path).read_text(), target.functions, given.most)
    by_key = {mutant.key: mutant for mutant in made}
    results = [{"key": key} for key in by_key] if given.list else verdicts(checkout, target, made, given.tier, folder)
    return [
        {"target": target.name, "tier": given.tier, **verdict}
        | {name: getattr(by_key[verdict["key"]], name) for name in ("function", "line", "before", "after")}
        | {"killed": verdict.get("status", 0) != 0}
        for verdict in results
    ]


def show(target: str, found: list[dict[str, Any]]) -> None:
    killed = sum(row["killed"] for row in found)
    cost = sum(row["cost"] for row in found)
    print(
        f"{target:<20} {killed:>3} of {len(found):>3} killed  {100 * killed / len(found):4.0f} %  {cost:6.0f} s",
        flush=True,
    )
    for row in found:
        if not row["killed"]:
            print(f"    survives: {_change(row)}", flush=True)


def _change(row: dict[str, Any]) -> str:
    return f"{row['function']}:{row['line']}: {row['before']}  =>  {row['after']}"


def main() -> int:
    given = options()
    checkout = given.checkout.resolve()
    before = [json.loads(line) for line in given.against.read_text().splitlines()] if given.against else []
    killed_before = {row["key"] for row in before if row["killed"]}
    everything: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="nv-mutants-") as folder:
        for name in given.targets or TARGETS:
            found = rows(checkout, TARGETS[name], given, Path(folder))
            everything += found
            if given.list:
                print("\n".join(f"{name} {row['key']} {_change(row)}" for row in found))
                continue
            show(name, found)
            if given.out:
                with given.out.open("a") as file:
                    file.writelines(json.dumps(row) + "\n" for row in found)
    if given.list:
        return 0
    killed = sum(row["killed"] for row in everything)
    print(f"{killed} of {len(everything)} killed, {100 * killed / len(everything):.0f} %")
    lost = [row for row in everything if row["key"] in killed_before and not row["killed"]]
    for row in lost:
        print(f"was killed before: {row['target']} {_change(row)}")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
