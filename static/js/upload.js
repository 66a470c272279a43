// Uploads an image: the form creates the record, then the file follows in parts.  The server keeps what has arrived, so a
// broken connection, or another visit to the page, goes on there (portal/dashboard/images/views.py: ImageData).
const PART = 16 << 20; // bytes: a proxy in between may refuse or keep larger bodies
const LONGEST_PAUSE = 30; // seconds between two attempts
const MOST_ATTEMPTS = 20; // without a byte in between
// What files of each format have, and where; a negative place counts from the end.  All others are plain disks.
const MARKS = {
    qcow2: [[0, "QFI\u00fb"]],
    vmdk: [[0, "KDMV"]],
    vhdx: [[0, "vhdxfile"]],
    vhd: [[0, "conectix"], [-512, "conectix"]],
    vdi: [[0x40, "\u007f\u0010\u00da\u00be"]],
    iso: [[0x8001, "CD001"]],
};

const form = document.getElementById("upload");
const progress = document.getElementById("upload-progress");
const bar = progress.querySelector("progress");
const words = document.getElementById("upload-words");
const percent = document.getElementById("upload-percent");
const figures = document.getElementById("upload-figures");
const submit = form.querySelector("[data-testid=upload-submit]");
const cancel = form.querySelector("[data-testid=upload-cancel]");
const token = form.querySelector("[name=csrfmiddlewaretoken]").value;
const describedBy = new Map([...form.querySelectorAll("[aria-describedby]")].map((each) => [each, each.getAttribute("aria-describedby")]));
let sending = false;
let address = form.dataset.upload ?? ""; // of the data, once there is a record
let request = null; // the part that is on its way

class Refusal extends Error {
    constructor(status, message, { field = "", offset = null } = {}) {
        super(message);
        Object.assign(this, { status, field, offset });
    }

    // A fault of the connection, or of a server that starts again or has much to do.
    get passes() {
        return this.status === 0 || this.status === 400 || this.status === 409 || this.status === 429 || this.status >= 500;
    }
}

// --- the form ------------------------------------------------------------------------------------------------------------

// Shows what is wrong as the server draws it in other forms (dashboard/_errors.html).
function refuse(field, message) {
    const control = form.elements[field];
    const place = form.querySelector(`[data-field="${CSS.escape(field)}"]`) ?? progress;
    const error = document.createElement("div");
    error.id = `${field || "form"}_error`;
    error.className = "field-error";
    error.role = "alert";
    error.textContent = message;
    if (control && place !== progress) {
        place.append(error);
        control.setAttribute("aria-invalid", "true");
        control.setAttribute("aria-describedby", [error.id, describedBy.get(control)].filter(Boolean).join(" "));
        control.focus();
    } else place.after(error);
    progress.hidden = true;
    submit.disabled = sending = false;
}

function clearErrors() {
    for (const error of form.querySelectorAll(".field-error")) error.remove();
    for (const control of form.querySelectorAll("[aria-invalid]")) {
        control.removeAttribute("aria-invalid");
        control.setAttribute("aria-describedby", describedBy.get(control) ?? "");
    }
}

// Proposes a format and a name for a file; a name that was typed is kept.
function propose(file) {
    const found = /\.(qcow2|raw|iso|vmdk|vhdx|vhd|vdi)$/i.exec(file);
    if (found && form.elements.disk_format) form.elements.disk_format.value = found[1].toLowerCase();
    if (!form.elements.name.value) form.elements.name.value = file.replace(/\.(qcow2|img|raw|iso|vmdk|vhdx?|vdi)$/i, "");
}

// Returns the last part of the path of an address, empty when there is none.
function fileIn(address) {
    const path = URL.canParse(address) ? new URL(address).pathname : "";
    try {
        return decodeURIComponent(path.split("/").at(-1));
    } catch {
        return ""; // it is no text
    }
}

// --- what the server answers ---------------------------------------------------------------------------------------------

// Returns the reason in an answer of any kind: JSON, plain text, or a page with a title.
function reasonOf(kind, text) {
    if (kind.includes("json")) {
        try {
            return JSON.parse(text);
        } catch {
            return {};
        }
    }
    if (kind.includes("html")) return { message: new DOMParser().parseFromString(text, "text/html").title };
    return { message: text.split("\n")[0].slice(0, 200) };
}

function refusalOf(status, phrase, kind, text) {
    const answer = reasonOf(kind, text);
    const told = answer.message || phrase;
    if (kind.includes("json") && answer.message) return new Refusal(status, told, answer);
    return new Refusal(status, `The server answered ${status}${told ? `: ${told}` : ""}.`);
}

async function ask(url, options) {
    let response;
    try {
        response = await fetch(url, { ...options, headers: { Accept: "application/json", "X-CSRFToken": token }, redirect: "manual" });
    } catch {
        throw new Refusal(0, "The server cannot be reached.");
    }
    if (response.type === "opaqueredirect") throw new Refusal(401, "You were signed out in the meantime.");
    const text = await response.text();
    const kind = response.headers.get("Content-Type") ?? "";
    if (!response.ok) throw refusalOf(response.status, response.statusText, kind, text);
    return text ? JSON.parse(text) : {};
}

// --- the figures ---------------------------------------------------------------------------------------------------------

function bytes(number) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    const power = number ? Math.min(Math.floor(Math.log2(number) / 10), units.length - 1) : 0;
    const value = number / 1024 ** power;
    return `${value.toFixed(power && value < 100 ? 1 : 0)} ${units[power]}`;
}

function duration(seconds) {
    if (seconds < 90) return `${Math.ceil(seconds)} s`;
    return seconds < 5400 ? `${Math.ceil(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

const speed = {
    points: [], // time in ms and bytes, of the last ten seconds of one connection
    at(sent) {
        const now = performance.now();
        this.points.push([now, sent]);
        while (this.points.length > 2 && now - this.points[0][0] > 10000) this.points.shift();
        const [[since, before]] = this.points;
        return now > since ? (1000 * (sent - before)) / (now - since) : 0;
    },
};

// Shows from where the data follows, without a speed: nothing has been sent from there yet.
function showStart(sent, size) {
    speed.points = [];
    show(sent, size);
}

function show(sent, size) {
    const rate = speed.at(sent);
    bar.value = (100 * sent) / size;
    percent.textContent = `${Math.floor((100 * sent) / size)} %`;
    const left = rate > 0 && sent < size ? ` · ${duration((size - sent) / rate)} left` : "";
    figures.textContent = `${bytes(sent)} of ${bytes(size)}${rate > 0 ? ` · ${bytes(rate)}/s` : ""}${left}`;
    if (sent === size) words.textContent = "Checking the file";
}

// --- sending -------------------------------------------------------------------------------------------------------------

function sendPart(file, offset) {
    const part = file.slice(offset, offset + PART);
    return new Promise((resolve, reject) => {
        request = new XMLHttpRequest();
        request.open("PUT", address);
        request.setRequestHeader("Content-Type", "application/octet-stream");
        request.setRequestHeader("Accept", "application/json");
        request.setRequestHeader("Upload-Offset", offset);
        request.setRequestHeader("X-CSRFToken", token);
        request.upload.addEventListener("progress", (event) => show(offset + event.loaded, file.size));
        request.addEventListener("load", () => {
            const { status, statusText, responseText } = request;
            const kind = request.getResponseHeader("Content-Type") ?? "";
            if (status === 200 || status === 201) resolve(JSON.parse(responseText));
            else reject(refusalOf(status, statusText, kind, responseText));
        });
        request.addEventListener("error", () => reject(new Refusal(0, "The connection broke.")));
        request.send(part);
    });
}

// The file must be the one whose beginning has arrived.
async function check(file, state) {
    if (state.size !== file.size) throw new Refusal(422, `This is another file: it has ${file.size} bytes, not ${state.size}.`, { field: "file" });
    const end = Uint8Array.from(atob(state.end), (each) => each.charCodeAt(0));
    const own = new Uint8Array(await file.slice(state.offset - end.length, state.offset).arrayBuffer());
    if (own.some((each, index) => each !== end[index])) throw new Refusal(422, "This is another file than the one whose beginning has arrived.", { field: "file" });
}

function pause(seconds) {
    return new Promise((resolve) => {
        const timer = setTimeout(resolve, 1000 * seconds);
        addEventListener("online", () => (clearTimeout(timer), resolve()), { once: true });
    });
}

// Sends the rest of the file; returns the address of the page that follows, or undefined after a cancellation.
async function send(file, offset) {
    for (let attempt = 0; sending; ) {
        try {
            if (offset === null) {
                const state = await ask(address, {});
                if (state.next) return state.next;
                await check(file, state);
                offset = state.offset;
                showStart(offset, file.size);
            }
            words.textContent = offset < file.size ? `Uploading ${file.name}` : "Checking the file";
            const answer = await sendPart(file, offset);
            if (answer.next) return answer.next;
            offset = answer.offset;
            attempt = 0;
        } catch (refusal) {
            if (!(refusal instanceof Refusal) || !refusal.passes || ++attempt > MOST_ATTEMPTS) throw refusal;
            const seconds = Math.min(2 ** (attempt - 1), LONGEST_PAUSE);
            words.textContent = `${refusal.message} Trying again in ${seconds} s.`;
            showStart(Math.round((bar.value * file.size) / 100), file.size);
            await pause(seconds);
            offset = null; // what the server has, it tells
        }
    }
    return undefined;
}

async function has(file, [place, mark]) {
    const begin = place < 0 ? file.size + place : place;
    if (begin < 0) return false;
    const bytes = new Uint8Array(await file.slice(begin, begin + mark.length).arrayBuffer());
    return String.fromCharCode(...bytes) === mark;
}

// The server inspects the whole file when it has arrived; a wrong choice of the format is told before that.
async function checkFormat(file) {
    const format = form.elements.disk_format.value;
    const tell = (message) => {
        throw new Refusal(422, message, { field: "disk_format" });
    };
    let chosen = !(format in MARKS);
    for (const [name, places] of Object.entries(MARKS)) {
        for (const place of places) {
            if (!(await has(file, place))) continue;
            if (name === format) chosen = true;
            else if (place[0] >= 0) tell(`The file is in the format ${name}.`); // a disk may end with anything
        }
    }
    if (!chosen) tell(`The file is not in the format ${format}.`);
}

function label() {
    submit.lastChild.textContent = address ? "Resume" : "Upload";
}

async function create(file) {
    if (file) await checkFormat(file);
    if (form.elements.size) form.elements.size.value = file?.size ?? "";
    const data = new FormData(form);
    data.delete("file");
    const answer = await ask(form.action, { method: "POST", body: new URLSearchParams(data) }); // the server takes no multipart/form-data
    address = answer.upload ?? "";
    return answer;
}

form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (sending) return;
    clearErrors();
    const fromWeb = form.elements.source?.value === "web";
    const file = fromWeb ? null : form.elements.file.files[0];
    if (!file && !fromWeb) return refuse("file", "Choose a file.");
    submit.disabled = sending = true;
    try {
        const resumes = Boolean(address);
        const created = resumes ? {} : await create(file);
        let next = created.next;
        if (!fromWeb) {
            progress.hidden = false;
            if (!resumes) showStart(0, file.size);
            next = await send(file, resumes ? null : 0);
        }
        sending = false;
        if (next) location.assign(next);
    } catch (error) {
        if (error.status === 404 || error.status === 422) address = form.dataset.upload ?? ""; // the record was deleted: the next attempt creates one
        label();
        refuse(error.field ?? "", error.message);
    }
});

cancel.addEventListener("click", async (event) => {
    if (!sending || !address) return;
    event.preventDefault();
    sending = false;
    request?.abort();
    try {
        await ask(address, { method: "DELETE" });
    } catch {
        // it is in the list, where it can be deleted
    }
    location.assign(form.dataset.images);
});

form.elements.file.addEventListener("change", () => {
    const file = form.elements.file.files[0];
    if (!file || form.dataset.upload) return;
    address = ""; // another file is another image
    label();
    propose(file.name);
});

form.elements.uri?.addEventListener("change", () => propose(fileIn(form.elements.uri.value)));
addEventListener("beforeunload", (event) => sending && event.preventDefault());
