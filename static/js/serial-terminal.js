// The terminal of a serial console: xterm.js, made to obey the portal's content policy.
import { FitAddon } from "../vendor/xterm-fit/addon-fit.mjs";
import { Terminal } from "../vendor/xterm/lib/xterm.mjs";

const FEWEST = { cols: 80, rows: 24 }; // what a guest takes a serial line for until it asks

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
    new ResizeObserver(() => {
        const size = fit.proposeDimensions();
        if (size) line.resize(Math.max(size.cols || 0, FEWEST.cols), Math.max(size.rows || 0, FEWEST.rows));
    }).observe(element);
    return { write: (bytes) => line.write(bytes), focus: () => line.focus() };
}
