// The launch wizard: names keys that are read from files, adds rows for disks, and keeps a draft for this tab.
const wizard = document.getElementById("wizard");

// --- names of public keys from files -----------------------------------------------------------------------------------------

document.getElementById("key-file")?.addEventListener("change", (event) => {
    const name = document.getElementById("key_new_name");
    if (name && !name.value) name.value = event.target.files[0]?.name.replace(/\.pub$/, "") ?? "";
});

// --- rows of disks: another empty row appears when the last one is used ------------------------------------------------------

const MOST_DISKS = 8;
wizard?.addEventListener("input", (event) => {
    const row = event.target.closest(".disk-row");
    const rows = wizard.querySelectorAll(".disk-row");
    if (!row || row !== rows[rows.length - 1] || rows.length >= MOST_DISKS) return;
    const next = row.cloneNode(true);
    for (const field of next.children) {
        field.value = "";
        field.setAttribute("aria-label", field.getAttribute("aria-label").replace(/\d+/, rows.length + 1));
    }
    row.after(next);
});

// --- the draft: kept in this tab while the page is filled, offered when the page is opened again --------------------------------

const DRAFT = "novella-launch";
const notice = document.getElementById("draft");
const fields = () =>
    [...wizard.elements].filter((field) => field.name && field.form === wizard && !["hidden", "file", "password", "submit"].includes(field.type));
const values = () => fields().map((field) => [field.name, field.value, field.checked ?? null]);
const stored = JSON.parse(sessionStorage.getItem(DRAFT) ?? "null");
const user = document.body.dataset.user;
const refused = wizard?.querySelector(".field-error[role=alert]"); // it shows what was sent
let touched = Boolean(refused);

function keep() {
    if (touched) sessionStorage.setItem(DRAFT, JSON.stringify({ user, values: values() }));
}

function restore() {
    const counts = {};
    while (wizard.querySelectorAll(".disk-row").length < stored.values.filter(([name]) => name === "disks_size").length) {
        const rows = wizard.querySelectorAll(".disk-row");
        rows[rows.length - 1].after(rows[rows.length - 1].cloneNode(true));
    }
    for (const [name, value, checked] of stored.values) {
        const same = fields().filter((field) => field.name === name);
        const choice = same.find((field) => ["checkbox", "radio"].includes(field.type) && field.value === value);
        counts[name] = (counts[name] ?? -1) + 1;
        if (choice) choice.checked = checked;
        else if (same[0] && !["checkbox", "radio"].includes(same[0].type)) same[Math.min(counts[name], same.length - 1)].value = value;
    }
    for (const details of wizard.querySelectorAll("details")) details.open ||= [...details.querySelectorAll("textarea, .disk-row input")].some((each) => each.value);
    wizard.dispatchEvent(new Event("change", { bubbles: true }));
}

if (wizard) {
    wizard.addEventListener("input", () => (touched = true));
    wizard.addEventListener("change", (event) => (touched ||= event.isTrusted));
    addEventListener("pagehide", keep);
    wizard.addEventListener("submit", (event) => {
        if (event.submitter?.hasAttribute("formaction")) return; // saved as a template, not launched
        touched = false;
        sessionStorage.removeItem(DRAFT);
    });
    if (stored?.user === user && notice && !refused) {
        notice.hidden = false;
        notice.addEventListener("click", (event) => {
            const chosen = event.target.dataset.draft;
            if (!chosen) return;
            if (chosen === "restore") restore();
            sessionStorage.removeItem(DRAFT);
            notice.hidden = true;
            document.getElementById("name").focus();
        });
    }
}
