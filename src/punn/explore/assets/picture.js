// The drawing: strokes of a pen, brought to the size and place of the pictures that the model was trained on.
(function () {
    "use strict";

    const {ask} = window.punn;
    const ARROWS = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowDown: [0, -1], ArrowUp: [0, 1]};
    let pen = null;
    let drawn = false;
    const canvas = () => document.getElementById("canvas");
    const flat = (target) => target.getContext("2d", {willReadFrequently: true});

    function paint(grid, side) {
        if (!canvas()) return;
        const small = document.createElement("canvas");
        small.width = small.height = side;
        write(small, grid, (level) => [20, 24, 30, Math.round(255 * level)]);
        const context = flat(canvas());
        context.clearRect(0, 0, canvas().width, canvas().height);
        context.imageSmoothingEnabled = false;
        context.drawImage(small, 0, 0, canvas().width, canvas().height);
        drawn = false;
        show(grid);
    }

    function write(target, grid, colourOf) {
        const context = flat(target);
        const image = context.createImageData(target.width, target.height);
        grid.forEach((level, i) => image.data.set(colourOf(level), 4 * i));
        context.putImageData(image, 0, 0);
    }

    function show(grid) {
        const seen = document.getElementById("seen");
        if (seen) write(seen, grid, (level) => [20, 24, 30, Math.round(255 * level)]);
    }

    // MNIST's digits fit into 20 of 28 pixels and have their mass in the middle; other pictures are as they are drawn.
    function shrunk() {
        const side = Number(document.getElementById("seen").width);
        const {width, height} = canvas();
        if (side !== 28) return fit(0, 0, width, height, side / width, side, 0, 0);
        const ink = alphas(canvas());
        let [left, top, right, bottom] = [width, height, -1, -1];
        for (let i = 0; i < ink.length; i++) {
            if (ink[i] < 30) continue;
            const x = i % width;
            const y = Math.floor(i / width);
            left = Math.min(left, x); right = Math.max(right, x);
            top = Math.min(top, y); bottom = Math.max(bottom, y);
        }
        if (right < 0) return new Array(side * side).fill(0);
        const [w, h] = [right - left + 1, bottom - top + 1];
        const scale = 20 / Math.max(w, h);
        const small = fit(left, top, w, h, scale, side, (side - w * scale) / 2, (side - h * scale) / 2);
        let [mass, x, y] = [0, 0, 0];
        small.forEach((level, i) => { mass += level; x += level * (i % side); y += level * Math.floor(i / side); });
        const [dx, dy] = [x / mass, y / mass].map((middle) => Math.round((side - 1) / 2 - middle));
        return fit(left, top, w, h, scale, side, (side - w * scale) / 2 + dx, (side - h * scale) / 2 + dy);
    }

    function fit(left, top, w, h, scale, side, x, y) {
        const small = document.createElement("canvas");
        small.width = small.height = side;
        const context = flat(small);
        context.imageSmoothingQuality = "high";
        context.drawImage(canvas(), left, top, w, h, x, y, w * scale, h * scale);
        return Array.from(alphas(small), (alpha) => Math.round((1000 * alpha) / 255) / 1000);
    }

    function alphas(source) {
        const pixels = flat(source).getImageData(0, 0, source.width, source.height).data;
        return pixels.filter((_, i) => i % 4 === 3);
    }

    function stroke(x, y) {
        const context = flat(canvas());
        if (!drawn) {
            context.clearRect(0, 0, canvas().width, canvas().height); // a preset is replaced, not drawn over
            drawn = true;
        }
        const width = (2.4 * canvas().width) / Number(document.getElementById("seen").width); // pixels of the picture
        Object.assign(context, {lineWidth: width, lineCap: "round", lineJoin: "round", strokeStyle: "rgb(20, 24, 30)"});
        context.beginPath();
        context.moveTo(pen.x, pen.y);
        context.lineTo(x, y);
        context.stroke();
        pen.x = x;
        pen.y = y;
        const grid = shrunk();
        show(grid);
        ask({grid});
    }

    function place(event) {
        const box = canvas().getBoundingClientRect();
        const scale = canvas().width / box.width;
        return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
    }

    document.addEventListener("pointerdown", (event) => {
        if (event.target.id !== "canvas" || event.button !== 0) return;
        event.preventDefault();
        canvas().focus({preventScroll: true});
        const [x, y] = place(event);
        pen = {x, y, down: true};
        stroke(x + 0.1, y);
    });
    document.addEventListener("pointermove", (event) => {
        if (pen && pen.down && canvas()) stroke(...place(event));
    });
    for (const end of ["pointerup", "pointercancel"]) {
        document.addEventListener(end, () => { if (pen) pen.down = false; });
    }
    // By keyboard: the arrows move the pen, and draw while shift is held.
    document.addEventListener("keydown", (event) => {
        const arrow = ARROWS[event.key];
        if (!arrow || event.target.id !== "canvas") return;
        event.preventDefault();
        pen = pen || {x: 140, y: 60, down: false};
        const clamp = (value) => Math.min(Math.max(value, 12), 268);
        const [x, y] = [clamp(pen.x + 12 * arrow[0]), clamp(pen.y - 12 * arrow[1])];
        if (event.shiftKey) stroke(x, y);
        else Object.assign(pen, {x, y});
    });
    document.addEventListener("click", (event) => {
        if (event.target.id !== "clear" || !canvas()) return;
        const side = Number(document.getElementById("seen").width);
        paint(new Array(side * side).fill(0), side);
        pen = null;
        ask({grid: new Array(side * side).fill(0)});
    });

    window.punn.paint = paint;
})();
