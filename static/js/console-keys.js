// What is typed by other means than a keyboard: text that is pasted, the keyboard of a phone, buttons for keys.
// A console gives: type(text), key(name) for Enter, BackSpace, Escape, Tab, and hold(name, down) for Control and Alt.
const typed = document.getElementById("console-typed");
const dialog = document.getElementById("console-paste-dialog");
const text = document.getElementById("console-paste-text");
const buttons = document.querySelectorAll("[data-key], [data-hold], #console-keyboard, #console-paste");
const BASE = "  "; // a phone tells of a deletion only where there is something to delete
let console_ = null;
let sent = BASE;

function rest() {
    typed.value = sent = BASE;
}

// Keyboards of phones replace words while one types: the difference is sent.
function follow() {
    const now = typed.value;
    let same = 0;
    while (same < Math.min(now.length, sent.length) && now[same] === sent[same]) same += 1;
    for (let gone = sent.length; gone > same; gone -= 1) console_?.key("BackSpace");
    if (now.length > same) console_?.type(now.slice(same));
    sent = now;
    release();
    if (now.endsWith("\n") || now.length > 200 || now.length < BASE.length) rest();
}

function release() {
    for (const button of document.querySelectorAll('[data-hold][aria-pressed="true"]')) {
        button.setAttribute("aria-pressed", "false");
        console_?.hold(button.dataset.hold, false);
    }
}

export function attach(given) {
    console_ = given;
    for (const button of buttons) button.disabled = !given;
    rest();
}

typed.addEventListener("input", follow);
document.getElementById("console-keyboard").addEventListener("click", () => typed.focus());

document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-key], [data-hold]");
    if (!button || !console_) return;
    if (button.dataset.key) {
        console_.key(button.dataset.key);
        release();
    } else {
        const down = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(down));
        console_.hold(button.dataset.hold, down);
    }
    if (document.activeElement !== typed) console_.focus();
});

document.getElementById("console-paste").addEventListener("click", async () => {
    text.value = "";
    dialog.returnValue = "";
    dialog.showModal();
    text.focus();
});

dialog.addEventListener("close", () => {
    if (dialog.returnValue === "type") console_?.type(text.value);
    text.value = "";
    console_?.focus();
});
