"""Keys that phones type to the screen of a guest, by its script in Node with a screen that notes what it is sent."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from playwright._impl._driver import compute_driver_executable

SCRIPT = Path(__file__).parents[2] / "static/js/vnc-screen.js"
SCREEN = """
export default class {
    sent = [];
    constructor() { globalThis.screen_ = this; }
    addEventListener(name, act) { this[name] = act; }
    sendKey(keysym, code, down) { this.sent.push([keysym, down]); }
}
"""
TYPED = """
globalThis.document = { getElementById: () => ({ replaceChildren() {} }) };
const { screenOf } = await import("./js/vnc-screen.js");
let keys;
screenOf({}, null, (given) => (keys = given));
screen_.connect();
keys.hold("Control", true);
keys.type("c");
await Promise.all([keys.hold("Control", false), keys.key("Enter")]);
console.log(JSON.stringify(screen_.sent));
"""


def test_a_key_that_is_held_is_let_go_after_the_letter(tmp_path: Path) -> None:
    (tmp_path / "js").mkdir()
    (tmp_path / "vendor/novnc/core").mkdir(parents=True)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "vendor/novnc/core/rfb.js").write_text(SCREEN)
    (tmp_path / "typed.js").write_text(TYPED)
    shutil.copy(SCRIPT, tmp_path / "js")
    node = compute_driver_executable()[0]
    said = subprocess.run([node, tmp_path / "typed.js"], check=True, capture_output=True, timeout=60).stdout
    assert json.loads(said) == [[0xFFE3, True], [ord("c"), None], [0xFFE3, False], [0xFF0D, None]]
