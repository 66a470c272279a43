"""Carries out the operations of a plan through the public API, and keeps the answers."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tools.chaos.calls import CALLS, FLAVORS, IMAGE
from tools.chaos.clients import ec2, moves, networks, volumes
from tools.chaos.clients.client import Answer, Client
from tools.chaos.clients.world import Outcome, World
from tools.chaos.plan import LANES, PROJECTS, Operation, Plan

COMPUTE = "/compute/v2.1"
LOOK_EVERY = 0.25
TOGETHER = 5
"""Maximum number of simultaneous calls of one operation."""


class Lane:
    """A client that carries out the operations of its lane in a thread."""

    def __init__(self, world: World, plan: Plan, number: int) -> None:
        self._world = world
        self._operations = plan.lane(number)
        self._client = world.clients[number % PROJECTS]

    def run(self, stopping: threading.Event) -> None:
        try:
            for operation in self._operations:
                with self._world.gate.passing():
                    if stopping.is_set():
                        return
                    with self._world.lock:
                        self._world.begun += 1
                    self._carry_out(operation)
        except Exception as error:  # noqa: BLE001 - reported at the end of the run
            self._world.troubles.append(f"a client broke off: {type(error).__name__}: {error}")

    def _carry_out(self, operation: Operation) -> None:
        if operation.kind.startswith("launch "):
            self._launch(operation)
            return
        server = self._server_of(operation)
        if not server:
            self._world.note(f"{operation.number} {operation}: there is no such server")
            return
        if operation.settled:
            self._settle(server)
        call = CALLS.get(operation.kind)
        client = self._world.operator if call is not None and call.by_operator else self._client

        def send() -> None:
            began = time.time()
            answer = _SEND.get(operation.kind, _act)(self._world, client, operation, server)
            self._keep(operation, began, answer, server)

        _together(send, operation.times)

    def _server_of(self, operation: Operation) -> str:
        launch = operation.target or 0
        known = self._world.servers.get(launch, [])
        if operation.index >= len(known):
            answer = self._client.call("GET", f"{COMPUTE}/servers?name={self._world.name(launch)}")
            if answer.accepted:
                found = sorted(answer.body["servers"], key=lambda server: str(server["name"]))
                known = self._world.servers[launch] = list(dict.fromkeys([*known, *(each["id"] for each in found)]))
        return known[operation.index] if operation.index < len(known) else ""

    def _settle(self, server: str) -> None:
        """Wait for a while until the server has no task."""
        deadline = time.monotonic() + self._world.settles_within
        while time.monotonic() < deadline:
            answer = self._client.call("GET", f"{COMPUTE}/servers/{server}")
            if answer.refused or (answer.accepted and answer.body["server"]["OS-EXT-STS:task_state"] is None):
                return
            time.sleep(LOOK_EVERY)

    def _launch(self, operation: Operation) -> None:
        began = time.time()
        if operation.kind == "launch repeated":
            _together(lambda: self._send_wizard(operation), operation.times)
            return
        if operation.kind == "launch ec2":
            _together(lambda: self._send_ec2(operation), operation.times)
            return
        answer = self._client.call("POST", f"{COMPUTE}/servers", launch_body(self._world, operation))
        self._keep(operation, began, answer)
        if answer.accepted and "server" in answer.body:
            self._world.servers[operation.number] = [answer.body["server"]["id"]]

    def _send_wizard(self, operation: Operation) -> None:
        began = time.time()
        answer = self._world.wizards[operation.project].launch(wizard_form(self._world, operation))
        self._keep(operation, began, answer)

    def _send_ec2(self, operation: Operation) -> None:
        began = time.time()
        for answer in ec2.launch(self._world, operation):
            self._keep(operation, began, answer)

    def _keep(self, operation: Operation, began: float, answer: Answer, server: str = "") -> None:
        outcome = Outcome(operation, began, time.time() - began, answer, server)
        with self._world.lock:
            self._world.outcomes.append(outcome)
        self._world.note(str(outcome))


def wizard_form(world: World, operation: Operation) -> dict[str, str]:
    """Return the fields of the wizard's form; the idempotency key is the same each time the form is sent."""
    name = world.name(operation.number)
    form = {"name": name, "image": world.image, "flavor": FLAVORS[operation.details["flavor"]]}
    return form | {"networks": world.network, "count": "1", "idempotency_key": f"chaos-{name}"}


def launch_body(world: World, operation: Operation) -> dict[str, Any]:
    """Return the body of a launch request, valid or invalid according to the plan."""
    details = operation.details
    server: dict[str, Any] = {
        "name": world.name(operation.number),
        "imageRef": world.image,
        "flavorRef": FLAVORS[details["flavor"]],
        "networks": [{"uuid": world.network}],
    }
    if "min_count" in details:
        server |= {"min_count": details["min_count"], "max_count": details["max_count"]}
    if details.get("reservation"):
        server["return_reservation_id"] = True
    body: dict[str, Any] = {"server": server}
    if "policy" in details:
        body["os:scheduler_hints"] = {"group": world.groups[operation.project, details["policy"]]}
    if operation.kind == "launch from volume":
        del server["imageRef"]
        server["block_device_mapping_v2"] = volumes.boot_disks(world, operation)
    if "wrong" in details:
        _spoil(server, body, details["wrong"])
    return body


def _spoil(server: dict[str, Any], body: dict[str, Any], wrong: str) -> None:
    nobody = str(uuid.UUID(int=7))
    changes: dict[str, dict[str, Any]] = {
        "no such flavor": {"flavorRef": "987654"},
        "no such image": {"imageRef": nobody},
        "no such network": {"networks": [{"uuid": nobody}]},
        "more than most": {"min_count": 3, "max_count": 2},
        "no count": {"min_count": 0},
        "name too long": {"name": server["name"] + "x" * 300},
        "no such key": {"key_name": "nobody's"},
    }
    if wrong == "no flavor":
        del server["flavorRef"]
    elif wrong == "no such group":
        body["os:scheduler_hints"] = {"group": nobody}
    else:
        server |= changes[wrong]


def _act(world: World, client: Client, operation: Operation, server: str) -> Answer:
    body = operation.details["body"]
    if isinstance(body, dict):
        body = {name: world.image if value == IMAGE else value for name, value in body.items()}
    return client.call("POST", f"{COMPUTE}/servers/{server}/action", {operation.kind: body})


def _delete(world: World, client: Client, operation: Operation, server: str) -> Answer:
    if operation.details.get("ec2"):
        return ec2.terminate(world, operation, server)
    if operation.details.get("force"):
        return client.call("POST", f"{COMPUTE}/servers/{server}/action", {"forceDelete": None})
    return client.call("DELETE", f"{COMPUTE}/servers/{server}")


def _metadata(world: World, client: Client, operation: Operation, server: str) -> Answer:
    return client.call("POST", f"{COMPUTE}/servers/{server}/metadata", {"metadata": {"step": str(operation.number)}})


def _rename(world: World, client: Client, operation: Operation, server: str) -> Answer:
    return client.call("PUT", f"{COMPUTE}/servers/{server}", {"server": {"description": f"step {operation.number}"}})


def _show(world: World, client: Client, operation: Operation, server: str) -> Answer:
    return client.call("GET", f"{COMPUTE}/servers/{server}")


def _console(world: World, client: Client, operation: Operation, server: str) -> Answer:
    return client.call("POST", f"{COMPUTE}/servers/{server}/action", {"os-getConsoleOutput": {"length": 10}})


def _diagnostics(world: World, client: Client, operation: Operation, server: str) -> Answer:
    return world.operator.call("GET", f"{COMPUTE}/servers/{server}/diagnostics")


def _attach(world: World, client: Client, operation: Operation, server: str) -> Answer:
    body = {"interfaceAttachment": {"net_id": world.network}}
    return client.call("POST", f"{COMPUTE}/servers/{server}/os-interface", body)


def _detach(world: World, client: Client, operation: Operation, server: str) -> Answer:
    interfaces = client.call("GET", f"{COMPUTE}/servers/{server}/os-interface")
    if not interfaces.accepted or not interfaces.body["interfaceAttachments"]:
        return interfaces
    port = interfaces.body["interfaceAttachments"][-1]["port_id"]
    return client.call("DELETE", f"{COMPUTE}/servers/{server}/os-interface/{port}")


_SEND: dict[str, Callable[[World, Client, Operation, str], Answer]] = {
    "delete": _delete,
    "metadata": _metadata,
    "rename": _rename,
    "show": _show,
    "console": _console,
    "diagnostics": _diagnostics,
    "attach_interface": _attach,
    "detach_interface": _detach,
    **networks.SEND,
    **volumes.SEND,
    **ec2.SEND,
    **moves.SEND,
}


def _together(send: Callable[[], None], times: int) -> None:
    if times == 1:
        send()
        return
    with ThreadPoolExecutor(min(times, TOGETHER)) as pool:
        for done in [pool.submit(send) for _ in range(times)]:
            done.result()


def start(world: World, plan: Plan, stopping: threading.Event) -> list[threading.Thread]:
    """Start all clients; return their threads."""
    threads = []
    for number in range(LANES):
        thread = threading.Thread(target=Lane(world, plan, number).run, args=[stopping], name=f"lane {number}")
        thread.daemon = True
        thread.start()
        threads.append(thread)
    return threads
