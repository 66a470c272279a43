// The screen of a guest: noVNC on a socket, and text typed as keys of a keyboard with the US layout.
import RFB from "../vendor/novnc/core/rfb.js";

const KEYS = { Enter: 0xff0d, BackSpace: 0xff08, Escape: 0xff1b, Tab: 0xff09, Control: 0xffe3, Alt: 0xffe9, Shift: 0xffe1 };
const SHIFTED = new Set('~!@#$%^&*()_+{}|:"<>?ABCDEFGHIJKLMNOPQRSTUVWXYZ');
const PAUSE = 12; // milliseconds for a key that goes down or up: QEMU takes 10, and drops what comes when 1,024 wait

function keysym(character) {
    if (character === "\n") return KEYS.Enter;
    if (character === "\t") return KEYS.Tab;
    const point = character.codePointAt(0);
    return point < 0x100 ? point : 0x01000000 | point; // as X11 has it
}

// Shows the screen of a socket in its place; calls back, when it is there, with what can be typed to.
export function screenOf(socket, place, connected) {
    const holder = document.getElementById("console-vnc");
    holder.replaceChildren();
    const rfb = new RFB(holder, socket, { shared: true });
    rfb.scaleViewport = true;
    rfb.background = "transparent";
    let queue = Promise.resolve();

    const taken = (moves) => new Promise((resolve) => setTimeout(resolve, moves * PAUSE));

    async function type(text) {
        let shift = false;
        const hold = (down) => {
            if (down === shift) return null;
            shift = down;
            rfb.sendKey(KEYS.Shift, "ShiftLeft", down);
            return taken(1);
        };
        for (const character of text.replaceAll("\r\n", "\n")) {
            await hold(SHIFTED.has(character));
            rfb.sendKey(keysym(character), null);
            await taken(2);
        }
        await hold(false);
    }

    // All goes through one queue: a letter is sent before the key that was held for it is let go.
    const after = (send) => (...given) => (queue = queue.then(() => send(...given)));

    rfb.addEventListener("connect", () =>
        connected({
            focus: () => rfb.focus(),
            type: after(type),
            key: after((name) => (name === "Ctrl-Alt-Del" ? rfb.sendCtrlAltDel() : rfb.sendKey(KEYS[name], null))),
            hold: after((name, down) => rfb.sendKey(KEYS[name], `${name}Left`, down)),
        }),
    );
    rfb.addEventListener("securityfailure", () => socket.close());
}
