// Key strokes that type a text, for the keyboard layout that the guest uses.
const CODES = (
    "Backquote Digit1 Digit2 Digit3 Digit4 Digit5 Digit6 Digit7 Digit8 Digit9 Digit0 Minus Equal " +
    "KeyQ KeyW KeyE KeyR KeyT KeyY KeyU KeyI KeyO KeyP BracketLeft BracketRight Backslash " +
    "KeyA KeyS KeyD KeyF KeyG KeyH KeyJ KeyK KeyL Semicolon Quote IntlBackslash KeyZ KeyX KeyC KeyV KeyB KeyN KeyM Comma Period Slash"
).split(" ");
const US = ["`1234567890-=qwertyuiop[]\\asdfghjkl;' zxcvbnm,./", '~!@#$%^&*()_+QWERTYUIOP{}|ASDFGHJKL:" ZXCVBNM<>?'];

// Characters without a modifier, with Shift and with AltGr, each at the place of its key in CODES; a blank is none.
// ``dead``: accents that wait for the next letter; the space bar types the accent itself.
export const LAYOUTS = {
    us: { name: "US English", rows: US, dead: "" },
    de: {
        name: "German",
        rows: [
            "^1234567890ß´qwertzuiopü+#asdfghjklöä<yxcvbnm,.-",
            "°!\"§$%&/()=?`QWERTZUIOPÜ*'ASDFGHJKLÖÄ>YXCVBNM;:_",
            "  ²³   {[]}\\ @ €        ~            |      µ   ",
        ],
        dead: "^´`",
    },
    fr: {
        name: "French",
        rows: [
            "²&é\"'(-è_çà)=azertyuiop^$*qsdfghjklmù<wxcvbn,;:!",
            " 1234567890°+AZERTYUIOP¨£µQSDFGHJKLM%>WXCVBN?./§",
            "  ~#{[|`\\^@]}  €        ¤                       ",
        ],
        dead: "^¨",
    },
};
const MARKS = { "\u0300": "`", "\u0301": "´", "\u0302": "^", "\u0308": "¨" };
const PLAIN = {
    "\n": { code: "Enter", keysym: 0xff0d },
    "\t": { code: "Tab", keysym: 0xff09 },
    " ": { code: "Space", keysym: 0x20 },
};

function tableOf({ rows, dead }) {
    const keys = new Map();
    const accents = new Map();
    rows.forEach((row, level) =>
        [...row].forEach((character, place) => {
            if (character === " ") return;
            // QEMU without its extended key events reads keysyms with the US layout
            const stroke = { code: CODES[place], keysym: US[level % 2].charCodeAt(place), shift: level === 1, altgr: level === 2 };
            if (level < 2 && dead.includes(character)) accents.set(character, stroke);
            else if (!keys.has(character)) keys.set(character, stroke);
        }),
    );
    for (const [character, stroke] of Object.entries(PLAIN)) keys.set(character, stroke);
    return { keys, accents };
}

function strokesFor(character, { keys, accents }) {
    if (keys.has(character)) return [keys.get(character)];
    if (accents.has(character)) return [accents.get(character), PLAIN[" "]];
    const [base, mark] = character.normalize("NFD");
    const accent = accents.get(MARKS[mark]);
    return accent && keys.has(base) ? [accent, keys.get(base)] : null;
}

// Returns the strokes {code, keysym, shift, altgr} of a text, and the characters that the layout cannot type.
export function strokesOf(text, layout) {
    const table = tableOf(LAYOUTS[layout] ?? LAYOUTS.us);
    const strokes = [];
    const missing = new Set();
    for (const character of text.normalize("NFC").replaceAll(/\r\n?/g, "\n")) {
        const found = strokesFor(character, table);
        if (found) strokes.push(...found);
        else missing.add(character);
    }
    return { strokes, missing: [...missing] };
}
