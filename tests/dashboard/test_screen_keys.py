"""Keys that phones and pasted texts type to the screen of a guest, by its script in Node with a screen that notes what
it is sent.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from playwright._impl._driver import compute_driver_executable

SCRIPTS = Path(__file__).parents[2] / "static/js"
SCREEN = """
export default class {
    sent = [];
    constructor() { globalThis.screen_ = this; }
    addEventListener(name, act) { this[name] = act; }
    sendKey(keysym, code, down) { this.sent.push([code, down]); }
}
"""
BEGIN = """
globalThis.setTimeout = (act) => queueMicrotask(act);
globalThis.document = { getElementById: () => ({ replaceChildren() {} }) };
const { screenOf } = await import("./js/vnc-screen.js");
let keys;
screenOf({}, null, (given) => (keys = given));
screen_.connect();
"""
TELL = "console.log(JSON.stringify(screen_.sent));"
PRINTABLE = "".join(map(chr, range(0x20, 0x7F)))


def sent(place: Path, steps: str) -> Any:
    """Run the steps with ``keys``, and return the keys that the screen was sent: code, and whether it goes down."""
    (place / "js").mkdir()
    (place / "vendor/novnc/core").mkdir(parents=True)
    (place / "package.json").write_text('{"type": "module"}')
    (place / "vendor/novnc/core/rfb.js").write_text(SCREEN)
    (place / "typed.js").write_text(BEGIN + steps)
    for name in ("vnc-screen.js", "keyboard-layouts.js"):
        shutil.copy(SCRIPTS / name, place / "js")
    node = compute_driver_executable()[0]
    return json.loads(subprocess.run([node, place / "typed.js"], check=True, capture_output=True, timeout=60).stdout)


def test_a_key_that_is_held_is_let_go_after_the_letter(tmp_path: Path) -> None:
    steps = """
    keys.hold("Control", true);
    keys.type("c", "us");
    await keys.hold("Control", false);
    """
    assert sent(tmp_path, steps + TELL) == [["ControlLeft", True], ["KeyC", None], ["ControlLeft", False]]


def test_keys_of_the_menu_are_pressed_together(tmp_path: Path) -> None:
    pressed = sent(tmp_path, 'await keys.key("Ctrl-Alt-F2"); await keys.key("Alt-SysRq-B");' + TELL)
    names = ["ControlLeft", "AltLeft", "F2", "AltLeft", "PrintScreen", "KeyB"]
    assert [code for code, down in pressed if down] == names
    assert pressed[3:6] == [["F2", False], ["AltLeft", False], ["ControlLeft", False]]


PASSWORD = {
    "us": ["Shift+Digit2", "Shift+Backquote", "Shift+Digit3", "KeyZ", "KeyQ"],
    "de": ["AltGr+KeyQ", "AltGr+BracketRight", "Backslash", "KeyY", "KeyQ"],
    "fr": ["AltGr+Digit0", "AltGr+Digit2", "AltGr+Digit3", "KeyW", "KeyA"],
}
"""Keys for ``@~#zq``."""


@pytest.mark.parametrize("layout", PASSWORD)
def test_a_password_is_typed_with_the_keys_of_the_layout(tmp_path: Path, layout: str) -> None:
    typed, held = [], []
    for code, down in sent(tmp_path, f'await keys.paste("@~#zq", "{layout}");' + TELL):
        modifier = {"ShiftLeft": "Shift", "AltRight": "AltGr"}.get(code)
        if modifier is None:
            typed.append("+".join([*held, code]))
        elif down:
            held.append(modifier)
        else:
            held.remove(modifier)
    assert typed == PASSWORD[layout]
    assert held == []


def test_each_layout_types_all_of_ascii_and_names_what_it_lacks(tmp_path: Path) -> None:
    steps = f"""
    const {{ LAYOUTS }} = await import("./js/keyboard-layouts.js");
    const lacking = Object.keys(LAYOUTS).map((each) => [each, keys.lacks({json.dumps(PRINTABLE)} + "ê😀", each)]);
    console.log(JSON.stringify(Object.fromEntries(lacking)));
    """
    assert sent(tmp_path, steps) == {"us": ["ê", "😀"], "de": ["😀"], "fr": ["😀"]}
