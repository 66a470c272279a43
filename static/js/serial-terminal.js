// The terminal of a serial console: xterm.js, made to obey the portal's content policy.
import { FitAddon } from "../vendor/xterm-fit/addon-fit.mjs";
import { Terminal } from "../vendor/xterm/lib/xterm.mjs";

const FEWEST = { cols: 80, rows: 24 }; // what a guest takes a serial line for until it asks
const SMALLEST = 5; // pixels of a letter's height, where 80 columns have little room
const BEFORE = 200; // lines of the console log that are shown first
const SIZES = { smallest: 8, largest: 32 }; // pixels, as chosen
const CODES = { Enter: "\r", BackSpace: "\x7f", Escape: "\x1b", Tab: "\t" };
const ARROWS = { ArrowUp: "A", ArrowDown: "B", ArrowRight: "C", ArrowLeft: "D" };

// The policy allows no inline styles, and xterm.js writes <style> elements and style attributes. In this window, which
// has nothing but the terminal, such text goes to style sheets and properties made by script: these are allowed.
const createElement = document.createElement.bind(document);

function setAttribute(name, value) {
    if (name === "style") this.style.cssText = value;
    else Element.prototype.setAttribute.call(this, name, value);
}

document.createElement = (name, options) => {
    if (name !== "style") return Object.assign(createElement(name, options), { setAttribute });
    const sheet = new CSSStyleSheet();
    document.adoptedStyleSheets.push(sheet);
    return Object.defineProperty(createElement("template"), "textContent", { set: (text) => sheet.replaceSync(text) });
};

// Shows what the guest writes (bytes) in the element, and gives what is typed, and answered to queries, to send (bytes).
export function terminal(element, send) {
    const encoder = new TextEncoder();
    const look = getComputedStyle(element);
    const line = new Terminal({
        fontFamily: look.fontFamily,
        fontSize: Number.parseFloat(look.fontSize),
        screenReaderMode: true,
        scrollback: 5000,
        theme: { background: look.backgroundColor, foreground: look.color, cursor: look.color },
    });
    const fit = new FitAddon();
    line.loadAddon(fit);
    line.open(element);
    line.textarea.setAttribute("aria-label", element.getAttribute("aria-label"));
    // Shift+Tab is the way out for a keyboard; with Ctrl and Shift, keys are the browser's.
    line.attachCustomKeyEventHandler((event) => !(event.shiftKey && (event.key === "Tab" || event.ctrlKey)));
    line.onData((text) => send(encoder.encode(text)));
    line.onBinary((text) => send(Uint8Array.from(text, (character) => character.charCodeAt(0))));
    const usual = line.options.fontSize;
    let larger = 0; // pixels, as chosen
    let fits = true; // letters become smaller, so that 80 columns have room
    const arrange = () => {
        line.options.fontSize = Math.min(Math.max(usual + larger, SIZES.smallest), SIZES.largest);
        let size = fit.proposeDimensions();
        if (fits && size && size.cols < FEWEST.cols) {
            const small = Math.floor((10 * line.options.fontSize * size.cols) / FEWEST.cols) / 10;
            line.options.fontSize = Math.max(SMALLEST, small);
            size = fit.proposeDimensions();
        }
        if (size) line.resize(Math.max(size.cols || 0, FEWEST.cols), Math.max(size.rows || 0, FEWEST.rows));
    };
    new ResizeObserver(arrange).observe(element);
    return {
        write: (bytes) => line.write(bytes),
        focus: () => line.focus(),
        paste: (text) => line.paste(text),
        arrow: (letter) => (line.modes.applicationCursorKeysMode ? "\x1bO" : "\x1b[") + letter,
        // The selected text, or without a selection the text that is in sight.
        copy: () => line.getSelection() || textInSight(line),
        enlarge: (pixels) => {
            larger = Math.min(Math.max(pixels, SIZES.smallest - usual), SIZES.largest - usual);
            arrange();
            return larger;
        },
        fit: (wanted) => {
            fits = wanted;
            arrange();
        },
    };
}

function textInSight(line) {
    const buffer = line.buffer.active;
    const rows = Array.from({ length: line.rows }, (_, row) => buffer.getLine(buffer.viewportY + row)?.translateToString(true) ?? "");
    return rows.join("\n").trimEnd() + "\n";
}

let shown = null; // the terminal stays when the console comes again
let send = () => {};
let control = false; // whether Ctrl is held for the next letter

function text(value) {
    const code = control && value.length === 1 ? value.toUpperCase().charCodeAt(0) : 0;
    return code >= 64 && code < 96 ? String.fromCharCode(code - 64) : value.replaceAll("\n", "\r");
}

// What the guest wrote before the window was opened, as far as it is kept.
async function before(address) {
    const answer = await fetch(address).catch(() => null);
    if (!answer?.ok) return;
    const lines = (await answer.text()).replaceAll("\r", "").split("\n").slice(-BEFORE);
    shown.write(new TextEncoder().encode(lines.join("\r\n")));
}

// Shows the serial line of a socket in its place; calls back, when it is there, with the operations of a console.
export function lineOf(socket, place, connected) {
    const encoder = new TextEncoder();
    const first = !shown;
    send = (bytes) => socket.readyState === WebSocket.OPEN && socket.send(bytes);
    shown ??= terminal(document.getElementById("console-serial"), (bytes) => send(bytes));
    const ready = first && place.dataset.log ? before(place.dataset.log) : Promise.resolve();
    socket.addEventListener("open", () => {
        const type = (value) => send(encoder.encode(text(value)));
        const key = (name) => {
            const letter = /^Ctrl-(.)$/.exec(name)?.[1]; // its code, as a terminal sends it
            type(letter ? String.fromCharCode(letter.charCodeAt(0) & 0x1f) : ARROWS[name] ? shown.arrow(ARROWS[name]) : CODES[name]);
        };
        connected({ ...shown, type, key, hold: (name, down) => (control = name === "Control" && down) });
    });
    socket.addEventListener("message", (event) => ready.then(() => shown.write(new Uint8Array(event.data))));
}
