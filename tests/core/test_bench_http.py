"""bin/bench http: its client, its table, and a small run on a cloud of its own; its figures are for people."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tools.bench.cloud import BenchError, Cloud
from tools.bench.over_http import command, machine, measure, table
from tools.bench.over_http.connection import Caller, request
from tools.bench.over_http.measure import Series

CHECKOUT = Path(__file__).resolve().parents[2]


class Handler(BaseHTTPRequestHandler):
    """Answers with its client's port, so that a test sees which connection was used."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = json.dumps({"port": self.client_address[1]}).encode()
        self.send_response(404 if self.path == "/missing" else 200)
        if self.path == "/chunked":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n" % (3, body[:3], len(body) - 3, body[3:]))
            return
        self.send_header("Content-Length", str(len(body)))
        if self.path == "/last":
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        if self.path == "/dropped":  # closed without a word
            self.close_connection = True

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def port(caller: Caller, url: str) -> int:
    return int(json.loads(caller.ask(request("GET", url, {})).body)["port"])


@pytest.mark.deep
def test_a_connection_is_kept_until_the_server_closes_it(site: str) -> None:
    caller = Caller()
    first = port(caller, f"{site}/one")
    assert port(caller, f"{site}/chunked") == first
    assert port(caller, f"{site}/last") == first
    second = port(caller, f"{site}/dropped")
    assert second != first
    assert port(caller, f"{site}/one") != second
    caller.close()


@pytest.mark.deep
def test_a_refusal_is_reported_with_its_status(site: str) -> None:
    caller = Caller()
    with pytest.raises(BenchError, match="404"):
        caller.ask(request("GET", f"{site}/missing", {}))
    assert caller.send(request("GET", f"{site}/missing", {})).status == 404
    caller.close()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--servers", "0"],
        ["--databases", "oracle"],
        ["--cloud", "a", "--against", "."],
        ["--auth-url", "http://keystone"],
        ["--against", "/nonexistent"],
        ["--pids", "1"],
    ],
)
@pytest.mark.deep
def test_what_does_not_fit_together_is_refused(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OS_PASSWORD", raising=False)
    with pytest.raises(SystemExit) as ended:
        command.options(arguments)
    assert ended.value.code == 2


@pytest.mark.deep
def test_counts_are_divided_into_rounds() -> None:
    counts = command.counts(command.options(["--launches", "7", "--requests", "100", "--servers", "40"]))
    assert (counts.rounds, counts.requests, counts.launches, counts.servers) == (5, 20, 2, 40)


@pytest.mark.deep
def test_the_table_has_goals_ratios_and_parts() -> None:
    alone = {
        (measure.TOKEN, 0): Series([0.006, 0.006, 0.010], 3, {"web": 0.012}),
        (measure.TOKEN, 1): Series([0.003, 0.002, 0.003], 3, {"web": 0.006, "database": 0.003}),
    }
    together = {
        (measure.LAUNCHES, 0): Series([10.0, 8.0, 12.0], 150, {}),
        (measure.LAUNCHES, 1): Series([25.0, 24.0, 26.0], 150, {}),
    }
    result = table.Comparison(
        ["before, sqlite", "after, sqlite"],
        alone,
        together,
        [{"web": 102_400}, {"web": 51_200}],
        [table.Ratio("times better", 0, 1)],
    )
    lines = [re.split(r"\s{2,}", line.strip()) for line in table.lines(result)]
    assert [measure.TOKEN, "≤ 3", "6.0", "10.0", "4.0", "3.0", "3.0", "3.0", "2.00", "0.75"] in lines
    assert [measure.LAUNCHES, "≥ 20", "10.0", "8.0", "-", "25.0", "24.0", "-", "2.50", "-"] in lines
    assert [measure.PASSWORD, "≤ 45", *["-"] * 8] in lines
    assert ["control plane", "≤ 260", "100", "50", "2.00", "-"] in lines
    assert [f"after, sqlite: {measure.TOKEN}: web 2.0, database 1.0"] in lines


@pytest.mark.deep
def test_processor_time_of_a_process_is_seen() -> None:
    with subprocess.Popen(["/bin/sh", "-c", "while :; do :; done"]) as busy:
        try:
            before = machine.used({"web": [busy.pid], "gone": []})
            machine.speed()
            spent = machine.spent(before, machine.used({"web": [busy.pid], "gone": []}))
        finally:
            busy.kill()
    assert spent["web"] > 0
    assert spent["gone"] == 0


@pytest.mark.deep
def test_another_checkout_is_started_in_its_own_folder(tmp_path: Path) -> None:
    """Where ``python -m`` looks first: else its services would run this checkout's code."""
    program = tmp_path / "other/bin/up"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\npwd -P > "$2.where"\necho "Novella is ready"\n')
    program.chmod(0o755)
    cloud = Cloud(tmp_path / "data", 1, tmp_path / "other")
    cloud.up()
    cloud.down()
    assert (tmp_path / "data.where").read_text().strip() == str((tmp_path / "other").resolve())


@pytest.mark.e2e
@pytest.mark.deep
def test_a_small_run_prints_the_table() -> None:
    counts = ["--servers", "21", "--launches", "1", "--requests", "2"]
    done = subprocess.run(
        [str(CHECKOUT / "bin/bench"), "http", "--databases", "sqlite", *counts],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [re.split(r"\s{2,}", line.strip()) for line in done.stdout.splitlines()]
    rows = {cells[0]: cells[1:] for cells in lines if len(cells) > 1}
    for row in [*table.ALONE, *table.TOGETHER, "control plane"]:
        figures = [cell for cell in rows[row] if cell[0] not in "≤≥"]
        assert figures, row
        assert all(float(cell) >= 0 for cell in figures), row
