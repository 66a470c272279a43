"""What is known of one server, for whoever looks into a failure of a chaos run."""

from __future__ import annotations

from typing import Any

from chaos.books import Books


def story(books: Books, instance: str) -> list[str]:
    """Return what is known of a server, in lines: its row, actions, steps, faults, orders and domain."""
    lines: list[str] = []
    shown: tuple[str, ...] = ("name", "vm_state", "task_state", "task_deadline", "power_state", "attempt", "host_id")
    shown += ("excluded_hosts", "previous_vm_state", "snapshot_image_id", "created_at", "updated_at", "deleted_at")
    for row in books.instances:
        if row["id"] == instance:
            lines.append(" ".join(f"{name}={row[name]}" for name in shown))
    actions = [row for row in books.actions if row["instance_id"] == instance]
    for action in actions:
        lines.append(
            f"action {action['action']} {action['request_id']} {action['started_at']} - {action['finished_at']}"
            f" {action['message'] or ''}"
        )
        lines += [
            f"    {step['name']} of attempt {step['attempt']} {step['started_at']} - {step['finished_at']}"
            f" {step['result']} {step['host']} {step['message']}"
            for step in books.steps
            if step["action_id"] == action["id"]
        ]
    lines += [f"fault {row['created_at']}: {row['message']}" for row in books.faults if row["instance_id"] == instance]
    lines += [
        f"order {row['kind']} {row['id']} of attempt {row['generation']} to {row['host_id']}:"
        f" given {row['created_at']}, taken {row['acknowledged_at']}, ended {row['finished_at']}"
        for row in books.orders
        if row["subject_id"] == instance
    ]
    if instance in books.domains:
        host, domain = books.domains[instance]
        lines.append(f"domain on {host}: {_short(domain)}")
    return lines


def _short(domain: Any) -> str:
    return " ".join(f"{name}={domain[name]}" for name in ("attempt", "power", "vcpus", "memory_mb", "interfaces"))
