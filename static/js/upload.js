// Uploads an image: the form makes the record, then the file follows as one stream, with its progress.
const form = document.getElementById("upload");
const progress = document.getElementById("upload-progress");
const bar = progress.querySelector("progress");
const words = document.getElementById("upload-words");
const percent = document.getElementById("upload-percent");
const submit = form.querySelector("[data-testid=upload-submit]");
const token = form.querySelector("[name=csrfmiddlewaretoken]").value;
const describedBy = new Map([...form.querySelectorAll("[aria-describedby]")].map((each) => [each, each.getAttribute("aria-describedby")]));
let sending = false;

// Shows what is wrong as the server draws it in other forms (dashboard/_errors.html).
function refuse(field, message) {
    const control = form.elements[field];
    const place = form.querySelector(`[data-field="${CSS.escape(field)}"]`) ?? progress;
    const error = document.createElement("div");
    error.id = `${field || "form"}_error`;
    error.className = "field-error";
    error.role = "alert";
    error.textContent = message;
    if (control) {
        place.append(error);
        control.setAttribute("aria-invalid", "true");
        control.setAttribute("aria-describedby", [error.id, describedBy.get(control)].filter(Boolean).join(" "));
        control.focus();
    } else place.after(error);
    progress.hidden = true;
    submit.disabled = sending = false;
}

function send(url, file) {
    const request = new XMLHttpRequest();
    request.open("PUT", url);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.setRequestHeader("X-CSRFToken", token);
    request.responseType = "json";
    request.upload.addEventListener("progress", (event) => {
        bar.value = (100 * event.loaded) / event.total;
        percent.textContent = `${Math.floor(bar.value)} %`;
        if (event.loaded === event.total) words.textContent = "Checking what arrived";
    });
    request.addEventListener("load", () => {
        if (request.status === 201) {
            sending = false;
            location.assign(request.response.next);
        } else refuse("file", request.response?.message ?? "The upload was refused.");
    });
    request.addEventListener("error", () => refuse("file", "The connection broke. Try again."));
    request.send(file);
}

function source() {
    return form.elements.source?.value ?? "file";
}

function guess(name) {
    const found = /\.(qcow2|raw|iso|vmdk|vhdx|vhd|vdi)$/i.exec(name);
    if (found) form.elements.disk_format.value = found[1].toLowerCase();
}

form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (sending) return;
    for (const error of form.querySelectorAll(".field-error")) error.remove();
    for (const control of form.querySelectorAll("[aria-invalid]")) {
        control.removeAttribute("aria-invalid");
        control.setAttribute("aria-describedby", describedBy.get(control) ?? "");
    }
    const fromWeb = source() === "web";
    const file = form.elements.file.files[0];
    if (!file && !fromWeb) return refuse("file", "Choose a file.");
    const data = new FormData(form);
    data.delete("file");
    submit.disabled = sending = true;
    try {
        const response = await fetch(form.action, { method: "POST", body: data });
        if (response.redirected) return location.assign(response.url); // signed out in the meantime
        const answer = await response.json();
        if (!response.ok) return refuse(answer.field, answer.message);
        if (fromWeb) return location.assign(answer.next);
        progress.hidden = false;
        words.textContent = `Uploading ${file.name}`;
        send(answer.upload, file);
    } catch {
        refuse("", "The server cannot be reached. Try again.");
    }
});

form.elements.file.addEventListener("change", () => {
    const file = form.elements.file.files[0];
    if (!file) return;
    if (!form.elements.name.value) form.elements.name.value = file.name.replace(/\.(qcow2|img|raw|iso|vmdk|vhdx?|vdi)$/i, "");
    guess(file.name);
});

form.elements.uri?.addEventListener("change", () => guess(form.elements.uri.value.split(/[?#]/)[0]));
addEventListener("beforeunload", (event) => sending && event.preventDefault());
