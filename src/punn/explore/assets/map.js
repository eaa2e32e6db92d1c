// The map: a click, a drag or the arrow keys move the row; the point follows at once, the answer comes after.
(function () {
    "use strict";

    const {state, ask, put} = window.punn;
    const graph = () => document.querySelector("#map .js-plotly-plot");
    let dragging = false;

    function axes() {
        const layout = graph() && graph()._fullLayout;
        return layout && layout.xaxis ? {x: layout.xaxis, y: layout.yaxis} : null;
    }

    function moveOnMap(x, y) {
        const [first, second] = state.pair;
        if (!Number.isInteger(first) || !Number.isInteger(second) || first === second) return;
        const last = graph().data.length - 1;
        window.Plotly.restyle(graph(), {x: [[x]], y: [[y]]}, [last]);
        put(first, x, "map");
        put(second, y, "map");
        ask({cells: [...state.cells]});
    }

    function fromPointer(event) {
        const {x, y} = axes();
        const box = graph().getBoundingClientRect();
        const clamp = (value, [low, high]) => Math.min(Math.max(value, low), high);
        moveOnMap(
            clamp(x.p2d(event.clientX - box.left - x._offset), x.range),
            clamp(y.p2d(event.clientY - box.top - y._offset), y.range),
        );
    }

    document.addEventListener("pointerdown", (event) => {
        if (event.button !== 0 || !event.target.closest("#map-box .plotly") || !axes()) return;
        dragging = true;
        document.getElementById("map-box").focus({preventScroll: true});
        event.preventDefault();
        fromPointer(event);
    }, true);
    document.addEventListener("pointermove", (event) => {
        if (dragging && axes()) fromPointer(event);
    }, true);
    for (const end of ["pointerup", "pointercancel"]) {
        document.addEventListener(end, () => { dragging = false; }, true);
    }

    const ARROWS = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowDown: [0, -1], ArrowUp: [0, 1]};
    document.addEventListener("keydown", (event) => {
        const arrow = ARROWS[event.key];
        if (!arrow || event.target.id !== "map-box" || !axes()) return;
        event.preventDefault();
        const {x, y} = axes();
        const [first, second] = state.pair;
        if (!Number.isInteger(first) || !Number.isInteger(second)) return;
        const step = (axis, sign) => (sign * (axis.range[1] - axis.range[0])) / (event.shiftKey ? 10 : 50);
        moveOnMap(state.cells[first] + step(x, arrow[0]), state.cells[second] + step(y, arrow[1]));
    });
})();
