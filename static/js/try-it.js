// Shows the OpenAPI document of the chosen service in Swagger UI, and puts a fresh token into each request.
const choice = document.getElementById("choice");
const note = document.getElementById("try-it-note");
const link = document.getElementById("document");
const versions = document.getElementById("versions");
const page = document.documentElement;
const STAND_IN = "$OS_TOKEN"; // what the page shows in place of the token
const EARLY = 60_000; // milliseconds before its end at which a token is replaced
let token = { value: "", end: 0 };
let ui;

async function freshToken() {
    if (Date.now() < token.end - EARLY) return token.value;
    const answer = await fetch(choice.dataset.tokenUrl, {
        method: "POST",
        headers: { "X-CSRFToken": choice.elements.csrfmiddlewaretoken.value },
        redirect: "error",
    });
    if (!answer.ok) throw new Error(String(answer.status));
    const said = await answer.json();
    token = { value: said.token, end: Date.parse(said.expires_at) };
    return token.value;
}

function withToken(request) {
    if (request.loadSpec || request.headers["X-Auth-Token"] !== STAND_IN) return request;
    return freshToken().then(
        (value) => {
            note.textContent = "";
            request.headers["X-Auth-Token"] = value;
            return request;
        },
        () => {
            note.textContent = "You were signed out in the meantime. Sign in again.";
            return request;
        },
    );
}

function show() {
    const { service, microversion } = choice.elements;
    versions.hidden = service.value !== "compute";
    if (!choice.reportValidity()) return;
    const asked = new URLSearchParams({ service: service.value });
    if (service.value === "compute") asked.set("microversion", microversion.value);
    const url = `${link.getAttribute("href").split("?")[0]}?${asked}`;
    link.href = url;
    ui = globalThis.SwaggerUIBundle({
        dom_id: "#try-it",
        url,
        docExpansion: "none",
        defaultModelsExpandDepth: -1,
        filter: true,
        validatorUrl: null,
        requestInterceptor: withToken,
        showMutatedRequest: false,
        onComplete: () => ui.preauthorizeApiKey("token", STAND_IN),
    });
}

const dress = () => page.classList.toggle("dark-mode", page.dataset.bsTheme === "dark");
dress();
new MutationObserver(dress).observe(page, { attributeFilter: ["data-bs-theme"] });
choice.addEventListener("change", show);
choice.addEventListener("submit", (event) => {
    event.preventDefault();
    show();
});
show();
