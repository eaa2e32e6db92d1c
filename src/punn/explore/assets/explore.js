// What happens in the browser alone: controls that agree with each other, the two views, the colours of the page. The
// model answers on the server, to one question at a time: while an answer is on its way only the latest question
// waits, so that a slider that is dragged never runs ahead of the trace.
(function () {
    "use strict";

    const LIMIT = 20000000; // bytes of a file that is dropped, as on the server
    const PATIENCE = 1500; // milliseconds after which an answer is given up
    const state = {subject: null, controls: [], cells: [], pair: [], texts: {}, slid: {}, busy: 0, waiting: null, number: 0};
    const set = (id, props) => window.dash_clientside.set_props(id, props);
    const at = (type, index) => ({type, index});

    function ask(row) {
        state.waiting = {subject: state.subject, ...row};
        if (Date.now() - state.busy > PATIENCE) send();
    }

    function send() {
        if (!state.waiting) return;
        state.busy = Date.now();
        set("asked", {data: {...state.waiting, number: ++state.number}});
        // A change that was found belongs to the row that was.
        set("change-result", {children: ""});
        set("use", {hidden: true});
        state.waiting = null;
    }

    function answered() {
        state.busy = 0;
        send();
    }

    // Six digits are enough to read; the row keeps all of them as long as nobody types over it.
    const shown = (value) => (value === null ? "" : String(Number(value.toPrecision(6))));

    function say(index, text, bad) {
        set(at("message", index), {children: text, className: bad ? "message" : "message remark"});
        set(at("field", index), {className: bad ? "field bad" : "field"});
    }

    function remark(index, value) {
        const control = state.controls[index];
        if (value === null) return say(index, "missing: filled in as in training", false);
        const slack = 1e-6 * (control.high - control.low);
        if (value < control.low - slack || value > control.high + slack) {
            return say(index, "beyond the training data", false);
        }
        return say(index, "", false);
    }

    // Put a value into all that shows it; texts and slid remember what was put there, so that it is not read back.
    function put(index, value, source) {
        state.cells[index] = value;
        if (state.controls[index].menu) {
            if (source !== "menu") set(at("menu", index), {value});
            return;
        }
        remark(index, value);
        if (source !== "field") {
            state.texts[index] = shown(value);
            set(at("field", index), {value: state.texts[index]});
        }
        if (source !== "slider" && value !== null) {
            state.slid[index] = value;
            set(at("slider", index), {value});
        }
    }

    function typed(index, text) {
        const control = state.controls[index];
        const words = String(text === null || text === undefined ? "" : text).trim();
        if (words === state.texts[index]) return false;
        state.texts[index] = words;
        if (words === "" && control.missing) {
            put(index, null, "field");
            return true;
        }
        const value = Number(words.replace(",", "."));
        if (words === "" || !Number.isFinite(value)) {
            say(index, words === "" ? "expected a number" : `expected a number, got ${words.slice(0, 20)}`, true);
            return false;
        }
        put(index, value, "field");
        return true;
    }

    function slid(index, text) {
        const value = Number(text);
        if (!Number.isFinite(value) || value === state.slid[index]) return false;
        state.slid[index] = value;
        put(index, value, "slider");
        return true;
    }

    function begin(controls) {
        if (!controls || controls.subject === state.subject) return null;
        Object.assign(state, {subject: controls.subject, controls: controls.controls, busy: 0, waiting: null});
        state.cells = [...(controls.cells || [])];
        Object.assign(state, {texts: {}, slid: {}});
        state.cells.forEach((value, index) => {
            if (state.controls[index].menu) return;
            state.texts[index] = shown(value);
            state.slid[index] = value;
        });
        if (controls.grid) requestAnimationFrame(() => window.punn.paint(controls.grid, controls.side));
        return controls.subject;
    }

    function sync(sliders, fields, menus, moved, controls) {
        if (!controls) return;
        begin(controls);
        let changed = false;
        for (const {prop_id, value} of window.dash_clientside.callback_context.triggered) {
            const id = prop_id.slice(0, prop_id.lastIndexOf("."));
            if (id === "moved") {
                changed = move(value) || changed;
                continue;
            }
            if (!id.startsWith("{") || value === undefined) continue;
            const {type, index} = JSON.parse(id);
            if (type === "slider") changed = slid(index, value) || changed;
            if (type === "field") changed = typed(index, value) || changed;
            if (type === "menu" && value !== state.cells[index]) {
                put(index, value, "menu");
                changed = true;
            }
        }
        if (changed) ask({cells: [...state.cells]});
    }

    function move(target) {
        if (!target) return false;
        if (target.grid) {
            window.punn.paint(target.grid, Math.sqrt(target.grid.length));
            ask({grid: target.grid});
            return false;
        }
        (target.cells || []).forEach((value, index) => put(index, value, "moved"));
        return Boolean(target.cells);
    }

    function find(words) {
        const wanted = (words || "").toLowerCase();
        document.querySelectorAll("#values .control").forEach((control) => {
            control.hidden = !control.querySelector("label").textContent.toLowerCase().includes(wanted);
        });
    }

    // ---- the two views, and the colours of the page

    function view(explore, train, wanted) {
        const trigger = (window.dash_clientside.callback_context.triggered[0] || {}).prop_id || "view.data";
        let name = typeof wanted === "object" && wanted ? wanted.view : wanted;
        if (trigger.startsWith("go-")) name = trigger.startsWith("go-train") ? "train" : "explore";
        const training = name === "train";
        // A graph that was hidden does not know its width.
        requestAnimationFrame(() => window.dispatchEvent(new Event("resize")));
        return [training, !training, training ? "view" : "view here", training ? "view here" : "view"];
    }

    const dark = window.matchMedia("(prefers-color-scheme: dark)");
    let chosen = null;
    try {
        chosen = localStorage.getItem("punn-theme");
    } catch (error) {
        chosen = null; // storage may be forbidden
    }
    const colour = () => {
        document.documentElement.dataset.theme = chosen || (dark.matches ? "dark" : "light");
    };
    dark.addEventListener("change", colour);
    colour();

    function theme(clicks) {
        if (!clicks) return;
        chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
        try {
            localStorage.setItem("punn-theme", chosen);
        } catch (error) {
            // it holds for this page then
        }
        colour();
    }

    // ---- files: one that is too large is refused before it is read

    function refuse(event, files) {
        const large = Array.from(files || []).find((file) => file.size > LIMIT);
        if (!large) return;
        event.stopPropagation();
        event.preventDefault();
        const size = `${Math.round(large.size / 1e6)} MB, more than ${LIMIT / 1e6} MB`;
        set("table-message", {children: `${large.name} has ${size}; train it in a shell: punn train ${large.name}`});
    }
    document.addEventListener("drop", (event) => {
        if (!event.target.closest || !event.target.closest("#upload")) event.preventDefault();
        else refuse(event, event.dataTransfer && event.dataTransfer.files);
    }, true);
    document.addEventListener("dragover", (event) => event.preventDefault());
    document.addEventListener("change", (event) => {
        if (event.target.type === "file") refuse(event, event.target.files);
    }, true);

    // For map.js and picture.js, which come after this one and add what they draw.
    window.punn = {state, ask, put};
    window.dash_clientside = Object.assign({}, window.dash_clientside, {
        punn: {begin, sync, answered, find, view, theme, axis: (x, y) => { state.pair = [x, y]; }},
    });
})();
