// A plain terminal: lines of text, carriage return, backspace and erasing; other control codes are left out.
// What the guest writes is hostile: it becomes text and nothing else.
const KEPT = 200_000; // characters
const KEYS = {
    Enter: "\r", Backspace: "\x7f", Tab: "\t", Escape: "\x1b", Delete: "\x1b[3~",
    ArrowUp: "\x1b[A", ArrowDown: "\x1b[B", ArrowRight: "\x1b[C", ArrowLeft: "\x1b[D", Home: "\x1b[H", End: "\x1b[F",
    PageUp: "\x1b[5~", PageDown: "\x1b[6~",
};
const SEQUENCE = /^\x1b(?:\[[0-9;?]*[ -/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()#][0-9A-Z]|[0-9=>@-Z\\^_a-z])/;
const LONGEST = 512; // of a sequence

export function terminal(element, send) {
    const decoder = new TextDecoder();
    const encoder = new TextEncoder();
    let done = ""; // the lines that are whole
    let line = []; // the characters of the last one
    let column = 0;
    let held = "";

    function put(character) {
        line[column] = character;
        column += 1;
    }

    function control(code) {
        if (code === "\n") {
            done += `${line.map((each) => each ?? " ").join("")}\n`;
            line = Array(column).fill(" ");
        } else if (code === "\r") column = 0;
        else if (code === "\b") column = Math.max(0, column - 1);
        else if (code === "\t") column += 8 - (column % 8);
    }

    function sequence(text, final) {
        const number = Math.min(Number.parseInt(text.slice(2), 10) || 0, 500);
        if (final === "K") {
            if (number === 0) line.length = Math.min(line.length, column);
            else line.fill(" ", 0, number === 2 ? line.length : column + 1);
        } else if (final === "J" && number >= 2) {
            done = "";
            line = [];
            column = 0;
        } else if (final === "C") column += number || 1;
        else if (final === "D") column = Math.max(0, column - (number || 1));
        else if (final === "G") column = Math.max(0, number - 1);
        else if (final === "P") line.splice(column, number || 1);
        else if (final === "n" && number === 6) send(encoder.encode("\x1b[1;1R"));
        for (let index = line.length; index < column; index += 1) line[index] = " ";
    }

    function write(bytes) {
        held += decoder.decode(bytes, { stream: true });
        let at = 0;
        while (at < held.length) {
            const character = held[at];
            if (character === "\x1b") {
                const found = SEQUENCE.exec(held.slice(at, at + LONGEST));
                if (found) {
                    sequence(found[0], found[1]);
                    at += found[0].length;
                    continue;
                }
                if (held.length - at < LONGEST) break; // the rest is on its way
            } else if (character < " " || character === "\x7f") control(character);
            else put(character);
            at += 1;
        }
        held = held.slice(at);
        done = done.slice(-KEPT);
        const low = element.scrollHeight - element.scrollTop - element.clientHeight < 40;
        element.textContent = done + line.map((each) => each ?? " ").join("");
        if (low) element.scrollTop = element.scrollHeight;
    }

    element.addEventListener("keydown", (event) => {
        if (event.isComposing || event.metaKey) return;
        let text = KEYS[event.key];
        if (event.ctrlKey && event.shiftKey) return; // the browser's own, and copy
        if (event.ctrlKey && /^[a-z@[\\\]^_]$/i.test(event.key)) text = String.fromCharCode(event.key.toUpperCase().charCodeAt(0) & 31);
        else if (event.ctrlKey) return;
        else if (event.key.length === 1) text = (event.altKey ? "\x1b" : "") + event.key;
        if (event.key === "Tab" && event.shiftKey) return; // the way out for a keyboard
        if (text === undefined) return;
        event.preventDefault();
        send(encoder.encode(text));
    });
    element.addEventListener("paste", (event) => {
        event.preventDefault();
        send(encoder.encode(event.clipboardData.getData("text").replaceAll("\n", "\r")));
    });
    return { write, focus: () => element.focus() };
}
