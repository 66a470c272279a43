// Small manners of every page: copying, dialogs, toasts, picking rows, shortcuts, forms that are sent once.
const dialog = document.getElementById("dialog");
const announcer = document.getElementById("announcer");

// --- htmx, which begins when the document has been read ------------------------------------------------------------------

if (window.htmx)
    Object.assign(htmx.config, {
        includeIndicatorStyles: false,
        allowEval: false,
        selfRequestsOnly: true,
        attributesToSettle: ["class", "width", "height"],
        historyCacheSize: 0,
        scrollBehavior: "auto",
        responseHandling: [
            { code: "204", swap: false },
            { code: "[23]..", swap: true },
            { code: "422", swap: true },
            { code: "[45]..", swap: false, error: true },
        ],
    });

// --- morphing ----------------------------------------------------------------------------------------------------------

// What a person is doing is left alone, in every morph of the page: open menus, ticked boxes, fields, the console.
// Hidden fields are the server's: they name the filter of the list that is shown.
if (window.Idiomorph) Idiomorph.defaults.callbacks.beforeNodeMorphed = (node) =>
    !(
        node.nodeType === Node.ELEMENT_NODE &&
        (node.matches("input:not([type=hidden]), textarea, select, [data-live-keep]") || node.matches(".dropdown:has(> .show)"))
    );

// --- copying -----------------------------------------------------------------------------------------------------------

async function copy(button) {
    const text = button.dataset.copy ?? document.getElementById(button.dataset.copyFrom)?.textContent ?? "";
    try {
        await navigator.clipboard.writeText(text);
    } catch {
        const area = document.createElement("textarea"); // pages served without TLS have no clipboard
        area.value = text;
        (dialog?.open ? dialog : document.body).append(area);
        area.select();
        document.execCommand("copy");
        area.remove();
        button.focus();
    }
    const icon = button.querySelector(".bi");
    button.classList.add("done");
    icon?.classList.replace("bi-copy", "bi-check2");
    announcer.textContent = "Copied.";
    setTimeout(() => {
        button.classList.remove("done");
        icon?.classList.replace("bi-check2", "bi-copy");
    }, 1400);
}

function download(link) {
    const text = document.getElementById(link.dataset.downloadFrom).textContent;
    const url = URL.createObjectURL(new Blob([text], { type: "application/octet-stream" }));
    const anchor = document.createElement("a");
    anchor.href = url;
    anchor.download = link.dataset.filename;
    anchor.click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
}

// --- dialogs: a page's form, fetched by htmx, shown in place --------------------------------------------------------------

function show(dialog) {
    const root = document.documentElement;
    root.style.setProperty("--nv-scroll-bar", `${innerWidth - root.clientWidth}px`);
    dialog.showModal();
}

document.body.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target?.id !== "dialog" || dialog.open || !dialog.childElementCount) return;
    show(dialog);
    dialog.scrollTop = 0; // the focus is on a button at its end, the question at its beginning
});

// A press on the backdrop closes the dialog. One that began in a field does not: it selects text.
let pressed = null;
dialog?.addEventListener("pointerdown", (event) => (pressed = event.target));
dialog?.addEventListener("click", (event) => {
    if (event.target !== dialog || pressed !== dialog) return;
    keepForms(dialog);
    dialog.close();
});
dialog?.addEventListener("cancel", () => keepForms(dialog)); // the Escape key; the button Cancel discards what was typed

// The focus goes back to where the question was asked: to the button of a row's menu, where the menu is closed by now.
let asker = null;

document.body.addEventListener("htmx:beforeRequest", (event) => {
    if (event.detail.target?.id !== "dialog") return;
    const source = event.detail.elt;
    const toggle = source.closest(".dropdown-menu")?.parentElement.querySelector("[data-bs-toggle]");
    asker = toggle ?? source;
});

dialog?.addEventListener("close", () => {
    dialog.replaceChildren();
    const back = asker?.isConnected ? asker : asker?.id && document.getElementById(asker.id);
    if (back && (document.activeElement === document.body || !document.activeElement)) back.focus();
    asker = null;
});

// --- row menus: fetched when they are opened, so that they show what the row allows at that moment --------------------------

document.addEventListener("show.bs.dropdown", async (event) => {
    const toggle = event.target.closest("[data-row-menu]");
    if (!toggle) return;
    const menu = toggle.nextElementSibling;
    menu.textContent = "";
    await htmx.ajax("GET", toggle.href, { source: toggle, target: menu, swap: "innerHTML" });
    bootstrap.Dropdown.getInstance(toggle)?.update(); // its height is known now
    if (document.activeElement === toggle) menu.querySelector(".dropdown-item")?.focus();
});

document.addEventListener("keydown", (event) => {
    if (event.key !== " " || !event.target.matches?.("a[data-row-menu]")) return;
    event.preventDefault(); // it looks like a button, so the space bar presses it
    event.target.click();
});

// --- toasts ----------------------------------------------------------------------------------------------------------------

function leave(toast) {
    toast.classList.add("leaving");
    setTimeout(() => toast.remove(), 220);
}

function schedule(toast) {
    if (toast.dataset.scheduled || toast.classList.contains("error")) return; // errors stay until they are closed
    toast.dataset.scheduled = "1";
    setTimeout(() => leave(toast), 6000);
}

const toasts = document.getElementById("toasts");
if (toasts) {
    new MutationObserver(() => toasts.querySelectorAll(".toast-note").forEach(schedule)).observe(toasts, { childList: true });
    toasts.querySelectorAll(".toast-note").forEach(schedule);
}

function toast(text) {
    const note = document.createElement("div");
    note.className = "toast-note error";
    note.role = "alert";
    const icon = document.createElement("i");
    icon.className = "bi bi-exclamation-octagon";
    icon.ariaHidden = "true";
    const words = document.createElement("span");
    words.textContent = text;
    const close = document.createElement("button");
    close.type = "button";
    close.className = "copy";
    close.dataset.close = "toast";
    close.ariaLabel = "Dismiss";
    close.innerHTML = '<i class="bi bi-x-lg" aria-hidden="true"></i>';
    note.append(icon, words, close);
    toasts?.append(note);
}

document.addEventListener("novella:told", (event) => toast(event.detail));
// A part that is fetched again by itself (data-quiet) says how old it is, so a failure needs no toast.
const quiet = (event) => "quiet" in (event.detail.elt?.dataset ?? {});
document.body.addEventListener("htmx:sendError", (event) => quiet(event) || toast("The server cannot be reached. Nothing was changed."));
document.body.addEventListener("htmx:responseError", (event) => {
    if (event.detail.xhr.status === 401) {
        keepDrafts();
        location.reload();
    }
    else if (quiet(event)) return;
    else if (event.detail.xhr.status === 404) toast("It was deleted in the meantime, or belongs to another project. Nothing was changed.");
    else if (event.detail.xhr.status === 503) toast("The service is busy or unavailable. Try again in a moment.");
    else toast("That did not work. Reload the page and try again.");
});

// --- the project switch --------------------------------------------------------------------------------------------------------

document.addEventListener("shown.bs.dropdown", (event) => {
    const menu = event.target.parentElement.querySelector(".project-menu");
    const search = menu?.querySelector("[data-project-search]");
    if (search) {
        search.value = "";
        search.dispatchEvent(new Event("opened"));
        search.focus();
    } else menu?.querySelector("[aria-current], .dropdown-item")?.focus();
});

document.addEventListener("keydown", (event) => {
    if (!event.target.matches?.("[data-project-search]") || !["ArrowDown", "Enter"].includes(event.key)) return;
    const first = event.target.form.querySelector(".dropdown-item");
    event.preventDefault();
    if (event.key === "Enter") first?.click();
    else first?.focus();
});

// --- drafts: what was typed survives a sign-in that has ended ------------------------------------------------------------------

const DRAFTS = "novella-drafts"; // {user, forms: path of a form's action → names and values}; passwords, files and hidden fields are left out
const SIGN_IN = "/auth/login/";
const typed = (form) => [...form.elements].filter((field) => field.name && !["password", "hidden", "file", "submit"].includes(field.type));

const valueOf = (field) => [field.name, field.value, field.checked ?? null, [...(field.selectedOptions ?? [])].map((each) => each.value)];
const isChanged = (field) =>
    field.options
        ? [...field.options].some((each) => each.selected !== each.defaultSelected)
        : field.value !== field.defaultValue || field.checked !== field.defaultChecked;

function keepDrafts() {
    if (!page) return; // the sign-in has a form, too
    const drafts = {};
    for (const form of document.querySelectorAll("#main form[method=post], #dialog form[method=post]")) {
        const values = typed(form).map(valueOf);
        if (values.length) drafts[new URL(form.action).pathname] = values;
    }
    sessionStorage.setItem(DRAFTS, JSON.stringify({ user: document.body.dataset.user, forms: drafts }));
}

function restoreDrafts(root) {
    for (const form of root.querySelectorAll("form[method=post]")) {
        const draft = returned[new URL(form.action).pathname];
        if (!draft) continue;
        delete returned[new URL(form.action).pathname];
        const fields = typed(form);
        for (const [name, value, checked, selected] of draft) {
            const field = fields.find((each) => each.name === name && (!["checkbox", "radio"].includes(each.type) || each.value === value));
            if (!field) continue;
            if (["checkbox", "radio"].includes(field.type)) field.checked = checked;
            else if (field.multiple) for (const option of field.options) option.selected = selected.includes(option.value);
            else field.value = value;
        }
        form.dispatchEvent(new Event("change", { bubbles: true }));
    }
}

// What was changed in a dialog that is closed without its buttons is there when the dialog is opened again on this page.
function keepForms(dialog) {
    for (const form of dialog.querySelectorAll("form[method=post]")) {
        const values = typed(form).filter(isChanged).map(valueOf);
        if (values.length) returned[new URL(form.action).pathname] = values;
    }
}

const fromSignIn = document.referrer && new URL(document.referrer).pathname === SIGN_IN;
const page = document.getElementById("main"); // absent before the sign-in, which passes the drafts on
const drafts = JSON.parse((page && sessionStorage.getItem(DRAFTS)) ?? "{}");
const returned = (fromSignIn && drafts.user === document.body.dataset.user && drafts.forms) || {}; // another person gets nothing
if (page) {
    sessionStorage.removeItem(DRAFTS);
    restoreDrafts(page);
}
document.body.addEventListener("htmx:afterSwap", (event) => event.detail.target?.id === "dialog" && restoreDrafts(dialog));
document.addEventListener("submit", keepDrafts, true);
document.addEventListener("novella:signed-out", keepDrafts);

// --- the side bar: groups stay as they were folded, and the entry of this page is in sight, as is its tab --------------------

const FOLDED = "novella-nav"; // group → whether it is open
const groups = document.querySelectorAll(".nav-group");
const chosen = JSON.parse(localStorage.getItem(FOLDED) ?? "{}");
for (const group of groups) {
    const here = group.querySelector("[aria-current]");
    if (!here && group.dataset.group in chosen) group.open = chosen[group.dataset.group];
    group.firstElementChild.addEventListener("click", () => {
        chosen[group.dataset.group] = !group.open; // it changes after the click
        localStorage.setItem(FOLDED, JSON.stringify(chosen));
    });
}
for (const here of document.querySelectorAll(".sidebar [aria-current], .page-tabs [aria-current]")) {
    here.scrollIntoView({ block: "nearest", inline: "nearest" });
}

// --- coming back to a list: where it was scrolled to --------------------------------------------------------------------------

const PLACE = "novella-place";
document.addEventListener("submit", (event) => {
    if (!event.target.closest("#dialog")) return;
    sessionStorage.setItem(PLACE, JSON.stringify({ at: location.pathname + location.search, y: scrollY }));
});
const left = JSON.parse(sessionStorage.getItem(PLACE) ?? "null");
sessionStorage.removeItem(PLACE);
if (left?.at === location.pathname + location.search) scrollTo(0, left.y);

// --- dialogs that repeat the side bar: pages are smaller without its copies --------------------------------------------------------

const FILLERS = {
    *shortcuts() {
        for (const link of document.querySelectorAll(".sidebar a[data-keys]")) {
            const [keys, does] = [document.createElement("dt"), document.createElement("dd")];
            for (const key of link.dataset.keys.split("-")) {
                keys.append(Object.assign(document.createElement("kbd"), { textContent: key }), " ");
            }
            does.textContent = `Go to ${link.textContent.trim()}`;
            yield* [keys, does];
        }
    },
    *entries() {
        const tabs = new Set([...document.querySelectorAll(".tabbar a")].map((link) => link.href));
        for (const link of document.querySelectorAll(".sidebar a[data-keys], .sidebar a[data-entry]")) {
            if (tabs.has(link.href)) continue;
            const item = link.parentElement.cloneNode(true);
            item.firstElementChild.removeAttribute("data-keys");
            yield item;
        }
    },
};

function open(dialog) {
    for (const place of dialog.querySelectorAll("[data-filled-by]")) {
        const added = [...FILLERS[place.dataset.filledBy]()];
        if (place.matches("li")) place.before(...added);
        else place.prepend(...added);
        place.removeAttribute("data-filled-by");
    }
    show(dialog);
}

// --- text of files, in the encodings of spreadsheets --------------------------------------------------------------------------

const LARGEST_TEXT = 65536;

function decoded(bytes) {
    const marks = [bytes[0], bytes[1]].join();
    if (marks === "255,254" || marks === "254,255") return new TextDecoder(marks === "255,254" ? "utf-16le" : "utf-16be").decode(bytes);
    try {
        return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    } catch {
        return new TextDecoder("windows-1252").decode(bytes);
    }
}

document.addEventListener("change", async (event) => {
    const target = document.getElementById(event.target.dataset.readInto ?? "");
    const file = event.target.files?.[0];
    if (!target || !file) return;
    const part = file.slice(0, LARGEST_TEXT + 1); // one byte too many is refused by the form
    target.value = decoded(new Uint8Array(await part.arrayBuffer())).trimEnd();
    event.target.value = "";
    target.focus();
});

// --- one listener for clicks ---------------------------------------------------------------------------------------------------

document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-copy], [data-copy-from], [data-close], [data-open], [data-download-from]");
    if (!button) return;
    if ("copy" in button.dataset || "copyFrom" in button.dataset) copy(button);
    else if ("downloadFrom" in button.dataset) download(button);
    else if (button.dataset.open) open(document.getElementById(button.dataset.open));
    else if (button.dataset.close === "toast") leave(button.closest(".toast-note"));
    else if (button.dataset.close === "dialog" && button.closest("dialog")) {
        event.preventDefault();
        button.closest("dialog").close();
    }
});

// --- forms that came over the socket: they are rendered without a request, so the page gives them its token ---------------------

document.addEventListener(
    "submit",
    (event) => {
        const form = event.target;
        if (form.method !== "post" || form.elements.csrfmiddlewaretoken) return;
        const field = document.createElement("input");
        field.type = "hidden";
        field.name = "csrfmiddlewaretoken";
        field.value = JSON.parse(document.body.getAttribute("hx-headers"))["X-CSRFToken"];
        form.append(field);
    },
    true,
);

// --- forms that may be sent once -------------------------------------------------------------------------------------------------

document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.matches("[data-once]")) return;
    if (form.dataset.sent) {
        event.preventDefault();
        return;
    }
    form.dataset.sent = "1";
    for (const button of form.querySelectorAll('[type="submit"]')) button.setAttribute("aria-disabled", "true");
    setTimeout(() => delete form.dataset.sent, 8000);
});

addEventListener("pageshow", (event) => {
    if (!event.persisted) return;
    for (const form of document.querySelectorAll("[data-once]")) delete form.dataset.sent;
});

// --- shortcuts: listed under "?" -------------------------------------------------------------------------------------------------

let prefix = "";
let prefixTimer = 0;

document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.key === "Shift") return;
    if (event.target.closest("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]")) return;
    if (document.querySelector("dialog[open]")) return;
    if (event.key === "g" && !prefix) {
        prefix = "g ";
        clearTimeout(prefixTimer);
        prefixTimer = setTimeout(() => (prefix = ""), 1200);
        return;
    }
    const keys = prefix + event.key;
    prefix = "";
    const target = document.querySelector(`[data-keys~="${CSS.escape(keys.replace(" ", "-"))}"]`);
    if (!target) return;
    event.preventDefault();
    if (target.matches("input")) target.select();
    else target.click();
});
