"use strict";
// A molecule as balls and sticks on a canvas: turned by mouse, touch and keys, played through by a slider.
// Each .viewer of the page has its data beside it. Nothing is loaded, and nothing moves unless it is asked to.
for (const root of document.querySelectorAll(".viewer")) {
  const data = JSON.parse(root.querySelector("script").textContent);
  const canvas = root.querySelector("canvas"), pen = canvas.getContext("2d");
  const slider = root.querySelector("input[type=range]"), order = root.querySelector("select");
  const names = root.querySelector("[data-do=names]"), play = root.querySelector("[data-do=play]");
  const caption = root.querySelector("[data-caption]");
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const DISTANCE = 4; // of the eye from the middle of the molecule, in units of its radius
  const TILT = turned(turned([[1, 0, 0], [0, 1, 0], [0, 0, 1]], -0.5, 0), 0, 0.4);
  const reach = Math.max(...data.frames.flatMap(frame => frame.R.map(at => Math.hypot(...at)))) + 0.5;
  let view = TILT, zoom = 1, timer = 0, held = null;

  // Mathematics: matrices of rows, angles in radians about the screen's x and y axes.
  function turned(matrix, aboutX, aboutY) {
    const [cx, sx, cy, sy] = [Math.cos(aboutX), Math.sin(aboutX), Math.cos(aboutY), Math.sin(aboutY)];
    const turn = [[cy, 0, sy], [sx * sy, cx, -sx * cy], [-cx * sy, sx, cx * cy]];
    return turn.map(row => [0, 1, 2].map(j => row.reduce((sum, each, k) => sum + each * matrix[k][j], 0)));
  }
  const along = (from, to, share) => from.map((x, k) => x + share * (to[k] - x));
  const seen = at => view.map(row => row[0] * at[0] + row[1] * at[1] + row[2] * at[2]);

  // Colours: the same one, lighter (share > 0) or darker.
  function shade(colour, share) {
    const end = share > 0 ? 255 : 0;
    const parts = [1, 3, 5].map(k => parseInt(colour.slice(k, k + 2), 16));
    return `rgb(${parts.map(part => Math.round(part + Math.abs(share) * (end - part))).join(",")})`;
  }

  // Places on the screen: x, y, and how many pixels an Angstrom has there.
  function projection(width, height) {
    const eye = DISTANCE * reach, size = 0.5 * Math.min(width, height) / reach * zoom * Math.sqrt(1 - DISTANCE ** -2);
    return ([x, y, z]) => {
      const scale = size * eye / Math.max(eye - z, 0.1 * eye);
      return [0.5 * width + x * scale, 0.5 * height - y * scale, scale];
    };
  }

  function drawStick(project, from, to, colour) {
    const [[x, y, scale], [u, v, end]] = [project(from), project(to)];
    const width = 0.2 * 0.5 * (scale + end);
    for (const [share, part] of [[-0.55, 1], [-0.1, 0.72], [0.35, 0.3]]) {
      pen.strokeStyle = shade(colour, share);
      pen.lineWidth = part * width;
      pen.beginPath();
      pen.moveTo(x, y);
      pen.lineTo(u, v);
      pen.stroke();
    }
  }

  function drawBall(project, at, radius, colour, name) {
    const [x, y, scale] = project(at), r = radius * scale;
    const light = pen.createRadialGradient(x - 0.35 * r, y - 0.4 * r, 0.05 * r, x, y, r);
    [[0, 0.75], [0.4, 0], [1, -0.5]].forEach(([stop, share]) => light.addColorStop(stop, shade(colour, share)));
    pen.fillStyle = light;
    pen.strokeStyle = "rgba(0,0,0,.45)";
    pen.lineWidth = 1;
    pen.beginPath();
    pen.arc(x, y, r, 0, 2 * Math.PI);
    pen.fill();
    pen.stroke();
    if (!names.checked || r < 7) return;
    pen.font = `600 ${Math.min(0.8 * r, 15)}px system-ui, sans-serif`;
    pen.lineWidth = 3;
    pen.strokeStyle = "rgba(255,255,255,.75)";
    pen.strokeText(name, x, y);
    pen.fillStyle = "#111";
    pen.fillText(name, x, y);
  }

  // Everything from the back to the front; sticks in two halves, each in its atom's colour, from the ball's surface.
  function draw() {
    const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
    [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    const project = projection(width, height), atoms = frame().R.map(seen);
    const colours = data.symbols.map(symbol => data.colours[symbol]);
    const parts = atoms.map((at, k) => [at[2], () => drawBall(project, at, data.radii[k], colours[k], data.names[k])]);
    for (const bond of data.bonds) {
      for (const [a, b] of [bond, [bond[1], bond[0]]]) {
        const length = Math.hypot(...atoms[a].map((x, k) => x - atoms[b][k]));
        const from = along(atoms[a], atoms[b], 0.85 * data.radii[a] / length);
        const middle = along(atoms[a], atoms[b], 0.5);
        parts.push([0.5 * (from[2] + middle[2]), () => drawStick(project, from, middle, colours[a])]);
      }
    }
    parts.sort((one, other) => one[0] - other[0]).forEach(part => part[1]());
  }

  // Configurations.
  const shown = () => Object.values(data.orders)[order.selectedIndex];
  const frame = () => data.frames[shown()[Number(slider.value)]];

  function describe() {
    const { label, round, energy, complexity } = frame();
    const parts = [`Label ${label} of ${data.total}`];
    if (round !== null) parts.push(round === 0 ? "among the first labels" : `chosen in round ${round}`);
    parts.push(`energy ${energy} meV above the lowest label`, `complexity ${complexity} times the median`);
    caption.textContent = `${parts.join(", ")}.`;
    slider.setAttribute("aria-valuetext", caption.textContent);
  }

  function show(number) {
    slider.value = number;
    describe();
    draw();
  }

  // From the first configuration of the order; browsers restore what was selected before a page is loaded again.
  function begin() {
    slider.max = shown().length - 1;
    show(0);
  }

  function stop() {
    clearInterval(timer);
    timer = 0;
    play.textContent = "Play";
  }

  function start() {
    play.textContent = "Pause";
    timer = setInterval(() => show((Number(slider.value) + 1) % shown().length), still.matches ? 1500 : 400);
  }

  // What is done with keys and buttons.
  const deeds = {
    ArrowLeft: () => view = turned(view, 0, -0.15), ArrowRight: () => view = turned(view, 0, 0.15),
    ArrowUp: () => view = turned(view, -0.15, 0), ArrowDown: () => view = turned(view, 0.15, 0),
    larger: () => zoom = Math.min(1.2 * zoom, 5), smaller: () => zoom = Math.max(zoom / 1.2, 0.3),
    reset: () => [view, zoom] = [TILT, 1], play: () => timer ? stop() : start(), names: () => {},
  };
  const keys = { "+": "larger", "=": "larger", "-": "smaller", "0": "reset" };

  function act(name) {
    deeds[name]();
    draw();
  }

  if (pen) {
    root.addEventListener("click", event => event.target.dataset.do && act(event.target.dataset.do));
    canvas.addEventListener("keydown", event => {
      const name = keys[event.key] || event.key;
      if (!Object.hasOwn(deeds, name) || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      act(name);
    });
    canvas.addEventListener("pointerdown", event => {
      held = [event.pointerId, event.clientX, event.clientY];
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", event => {
      if (held === null || held[0] !== event.pointerId) return;
      view = turned(view, 0.01 * (event.clientY - held[2]), 0.01 * (event.clientX - held[1]));
      held = [event.pointerId, event.clientX, event.clientY];
      draw();
    });
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => held = null);
    slider.addEventListener("input", () => (stop(), show(slider.value)));
    order.addEventListener("change", () => (stop(), begin()));
    new ResizeObserver(draw).observe(canvas);
    begin();
  } else {
    caption.textContent = "This browser cannot draw the molecule.";
  }
}
