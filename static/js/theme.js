// Sets the theme before the first paint; loaded in <head> without defer.  "auto" follows the system.
(() => {
    const KEY = "novella-theme";
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const read = () => {
        try {
            return localStorage.getItem(KEY) ?? "auto";
        } catch {
            return "auto";
        }
    };
    const apply = () => {
        const choice = read();
        const resolved = choice === "auto" ? (dark.matches ? "dark" : "light") : choice;
        document.documentElement.dataset.bsTheme = document.documentElement.dataset.theme = resolved; // ours and the admin's
        for (const button of document.querySelectorAll("[data-theme-choice]")) {
            button.setAttribute("aria-pressed", String(button.dataset.themeChoice === choice));
        }
    };
    apply();
    dark.addEventListener("change", apply);
    addEventListener("storage", (event) => event.key === KEY && apply());
    document.addEventListener("DOMContentLoaded", apply);
    document.addEventListener("click", (event) => {
        const button = event.target.closest?.("[data-theme-choice]");
        if (!button) return;
        try {
            localStorage.setItem(KEY, button.dataset.themeChoice);
        } catch {
            // storage is switched off: the choice lasts for this page only
        }
        apply();
    });
})();
