// The screen of a guest: noVNC on a socket, and text typed as keys of a keyboard.
import RFB from "../vendor/novnc/core/rfb.js";
import { strokesOf } from "./keyboard-layouts.js";

const KEYS = {
    Enter: [0xff0d, "Enter"],
    BackSpace: [0xff08, "Backspace"],
    Escape: [0xff1b, "Escape"],
    Tab: [0xff09, "Tab"],
    Delete: [0xffff, "Delete"],
    Control: [0xffe3, "ControlLeft"],
    Alt: [0xffe9, "AltLeft"],
    AltGr: [0xffea, "AltRight"],
    Shift: [0xffe1, "ShiftLeft"],
    SysRq: [0xff15, "PrintScreen"],
    ArrowLeft: [0xff51, "ArrowLeft"],
    ArrowUp: [0xff52, "ArrowUp"],
    ArrowRight: [0xff53, "ArrowRight"],
    ArrowDown: [0xff54, "ArrowDown"],
};
const PAUSE = 12; // milliseconds for a key that goes down or up: QEMU takes 10, and drops what comes when 1,024 wait

function keyOf(name) {
    if (KEYS[name]) return KEYS[name];
    if (/^F\d+$/.test(name)) return [0xffbd + Number(name.slice(1)), name];
    return [name.toLowerCase().charCodeAt(0), `Key${name.toUpperCase()}`];
}

// Shows the screen of a socket in its place; calls back, when it is there, with what can be typed to.
export function screenOf(socket, place, connected) {
    const holder = document.getElementById("console-vnc");
    holder.replaceChildren();
    const rfb = new RFB(holder, socket, { shared: true });
    rfb.background = "transparent";
    let queue = Promise.resolve();

    const taken = (moves) => new Promise((resolve) => setTimeout(resolve, moves * PAUSE));

    async function move(name, down) {
        const [keysym, code] = keyOf(name);
        rfb.sendKey(keysym, code, down);
        await taken(1);
    }

    // Returns the characters that the layout of the guest's keyboard does not have; they are left out.
    async function type(text, layout) {
        const { strokes, missing } = strokesOf(text, layout);
        const held = { Shift: false, AltGr: false };
        const hold = async (name, down) => {
            if (held[name] !== down) await move(name, down);
            held[name] = down;
        };
        for (const { keysym, code, shift = false, altgr = false } of strokes) {
            await hold("Shift", shift);
            await hold("AltGr", altgr);
            rfb.sendKey(keysym, code);
            await taken(2);
        }
        await hold("Shift", false);
        await hold("AltGr", false);
        return missing;
    }

    // Keys that are pressed together: "Ctrl-Alt-Delete".
    async function press(chord) {
        const names = chord.replace("Ctrl", "Control").split("-");
        for (const name of names) await move(name, true);
        for (const name of names.reverse()) await move(name, false);
    }

    // All goes through one queue: a letter is sent before the key that was held for it is let go.
    const after = (send) => (...given) => (queue = queue.then(() => send(...given)));

    rfb.addEventListener("connect", () =>
        connected({
            focus: () => rfb.focus(),
            type: after(type),
            paste: after(type),
            lacks: (text, layout) => strokesOf(text, layout).missing,
            key: after(press),
            hold: after(move),
            fit: (fits) => {
                rfb.scaleViewport = fits;
                holder.classList.toggle("unscaled", !fits);
            },
        }),
    );
    rfb.addEventListener("securityfailure", () => socket.close());
}
