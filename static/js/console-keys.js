// The bar of a console: keys that a keyboard lacks or the browser keeps, text that is pasted or copied, the size.
// A console gives: type(text, layout), paste(text, layout), key(name), hold(name, down) for Control and Alt, fit(fits);
// a screen gives lacks(text, layout), a serial line gives copy() and enlarge(pixels).
import { LAYOUTS } from "./keyboard-layouts.js";

const typed = document.getElementById("console-typed");
const dialog = document.getElementById("console-paste-dialog");
const text = document.getElementById("console-paste-text");
const problem = document.getElementById("console-paste-problem");
const layout = document.getElementById("console-layout"); // absent on a serial line
const fit = document.getElementById("console-fit");
const said = document.getElementById("console-said");
const tools = document.querySelectorAll("[data-needs-console]");
const BASE = "  "; // a phone tells of a deletion only where there is something to delete
let console_ = null;
let sent = BASE;

// Choices that the next console of this browser begins with.
const kept = {
    read: (name, usual) => {
        try {
            return localStorage.getItem(`novella-console-${name}`) ?? usual;
        } catch {
            return usual; // the browser keeps nothing
        }
    },
    write: (name, value) => {
        try {
            localStorage.setItem(`novella-console-${name}`, value);
        } catch {}
    },
};

function rest() {
    typed.value = sent = BASE;
}

// Keyboards of phones replace words while one types: the difference is sent.
function follow() {
    const now = typed.value;
    let same = 0;
    while (same < Math.min(now.length, sent.length) && now[same] === sent[same]) same += 1;
    for (let gone = sent.length; gone > same; gone -= 1) console_?.key("BackSpace");
    if (now.length > same) console_?.type(now.slice(same), layout?.value);
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
    for (const tool of tools) tool.disabled = !given;
    rest();
    console_?.fit?.(kept.read("fit", "true") === "true");
    console_?.enlarge?.(Number(kept.read("letters", 0)) || 0);
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
    button.closest("[popover]")?.hidePopover();
    if (document.activeElement !== typed) console_.focus();
});

// The keyboard of a phone covers the window: the keys stay above it.
window.visualViewport?.addEventListener("resize", () => {
    document.body.style.height = `${visualViewport.height}px`;
});

// --- pasting -----------------------------------------------------------------------------------------------------------

if (layout) {
    layout.replaceChildren(...Object.entries(LAYOUTS).map(([key, { name }]) => new Option(name, key)));
    layout.value = kept.read("layout", "us");
    if (!layout.value) layout.value = "us";
}

function complain() {
    const lacking = console_?.lacks?.(text.value, layout.value) ?? [];
    problem.hidden = !lacking.length;
    problem.textContent = lacking.length ? `This layout has no key for: ${lacking.join(" ")}` : "";
    text.setAttribute("aria-invalid", String(lacking.length > 0));
    return lacking.length > 0;
}

document.getElementById("console-paste").addEventListener("click", () => {
    text.value = "";
    complain();
    dialog.returnValue = "";
    dialog.showModal();
    text.focus();
});

layout?.addEventListener("change", () => {
    kept.write("layout", layout.value);
    if (!problem.hidden) complain();
});

dialog.addEventListener("submit", (event) => {
    if (event.submitter?.value !== "type" || !complain()) return;
    event.preventDefault();
    text.focus();
});

dialog.addEventListener("close", () => {
    if (dialog.returnValue === "type") console_?.paste(text.value, layout?.value);
    text.value = "";
    console_?.focus();
});

// --- copying -----------------------------------------------------------------------------------------------------------

async function copy() {
    const found = console_.copy();
    try {
        await navigator.clipboard.writeText(found);
    } catch {
        const area = document.createElement("textarea"); // pages served without TLS have no clipboard
        area.value = found;
        document.body.append(area);
        area.select();
        document.execCommand("copy");
        area.remove();
    }
    said.textContent = "Copied.";
    setTimeout(() => (said.textContent = ""), 2000);
    console_?.focus();
}

document.getElementById("console-copy")?.addEventListener("click", copy);

// --- size --------------------------------------------------------------------------------------------------------------

fit.setAttribute("aria-pressed", kept.read("fit", "true"));
fit.addEventListener("click", () => {
    const fits = fit.getAttribute("aria-pressed") !== "true";
    fit.setAttribute("aria-pressed", String(fits));
    kept.write("fit", String(fits));
    console_?.fit(fits);
    console_?.focus();
});

for (const button of document.querySelectorAll("[data-letters]")) {
    button.addEventListener("click", () => {
        const wanted = (Number(kept.read("letters", 0)) || 0) + Number(button.dataset.letters);
        kept.write("letters", String(console_?.enlarge(wanted) ?? wanted));
    });
}
