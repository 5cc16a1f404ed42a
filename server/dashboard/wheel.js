// Drawing of the wheel: a ring for each level, the finest outside. Slots with timers are highlighted. Between
// samples, the hand advances according to the page's clock. A slot costs one arc per second, regardless of
// its contents; a frame costs a few strokes.

const FRAME_MS = 33;
const STALE_MS = 2500; // How long the hand advances without a new sample.
const BRIGHTNESS = 5;
const TOP = -Math.PI / 2;
const TURN = 2 * Math.PI;

export class Wheel {
  #canvas;
  #rings = [];
  #tick_ms = 10;
  #still = document.createElement("canvas"); // The slots, drawn once per sample.
  #at = 0; // Time at which the sample arrived.
  #slip = 0; // How far the hand was ahead of the sample at that time, in slots.
  #size = 0;
  #colours = {};
  #isQuiet;
  #flashes;
  #scale = 1;

  constructor(canvas, flashes, signal) {
    this.#canvas = canvas;
    this.#flashes = flashes;
    const quiet = matchMedia("(prefers-reduced-motion: reduce)");
    const dark = matchMedia("(prefers-color-scheme: dark)");
    this.#isQuiet = quiet.matches;
    quiet.addEventListener("change", ({ matches }) => this.#restart(matches, signal), { signal });
    dark.addEventListener("change", () => this.#repaint(), { signal });
    const observer = new ResizeObserver(() => this.#fit());
    observer.observe(canvas);
    signal.addEventListener("abort", () => observer.disconnect());
    this.#restart(this.#isQuiet, signal);
  }

  // `rings` as in a sample.
  update(rings, tick_ms, now = performance.now()) {
    const hand = this.#rings[0] && rings[0]?.slots === this.#rings[0].slots ? this.#position(0, now) : null;
    this.#rings = rings;
    this.#tick_ms = tick_ms;
    this.#at = now;
    this.#slip = 0;
    if (hand !== null) {
      const { slots } = rings[0];
      const ahead = ((((hand - rings[0].hand + slots / 2) % slots) + slots) % slots) - slots / 2;
      if (Math.abs(ahead) < slots / 8) this.#slip = ahead;
    }
    this.#repaint();
  }

  #restart(isQuiet, signal) {
    this.#isQuiet = isQuiet;
    let last = 0;
    const frame = (now) => {
      if (signal.aborted || this.#isQuiet) return;
      if (now - last >= FRAME_MS) {
        last = now;
        this.#draw(now);
      }
      requestAnimationFrame(frame);
    };
    if (!isQuiet) requestAnimationFrame(frame);
  }

  #fit() {
    const { clientWidth } = this.#canvas;
    if (clientWidth === 0) return;
    this.#scale = Math.min(devicePixelRatio || 1, 2);
    this.#size = clientWidth;
    for (const canvas of [this.#canvas, this.#still]) canvas.width = canvas.height = Math.round(clientWidth * this.#scale);
    this.#repaint();
  }

  #repaint() {
    if (this.#size === 0) return;
    const style = getComputedStyle(this.#canvas);
    for (const name of ["slot", "occupied", "hand"]) this.#colours[name] = style.getPropertyValue(`--wheel-${name}`).trim();
    this.#drawSlots();
    this.#draw(performance.now());
  }

  // Returns the position of a ring's hand, in slots. A coarser hand moves between its slots according to the
  // finer hands.
  #position(index, now) {
    const ring = this.#rings[index];
    const elapsed_ms = this.#isQuiet ? 0 : Math.min(now - this.#at, STALE_MS);
    const within = index > 0 && ring.slot_ticks === this.#rings[index - 1].slots * this.#rings[index - 1].slot_ticks;
    if (within) return ring.hand + this.#position(index - 1, now) / this.#rings[index - 1].slots;
    const slip = index === 0 ? this.#slip * Math.exp(-elapsed_ms / 250) : 0;
    return ring.hand + slip + elapsed_ms / (ring.slot_ticks * this.#tick_ms);
  }

  // Returns the radius and width of each ring. Levels with timers are wider. The centre is left free for a
  // number.
  #radii() {
    const outer = this.#size * 0.45;
    const inner = this.#size * 0.17;
    const weights = this.#rings.map((ring, index) => (ring.occupied.length > 0 || index === 0 ? (index === 0 ? 1.5 : 1) : 0.3));
    const sum = weights.reduce((sum, weight) => sum + weight, 0);
    let radius = outer;
    return weights.map((weight) => {
      const width = Math.min(((outer - inner) * weight) / sum, this.#size * 0.085);
      radius -= width;
      return { middle: radius + width / 2, width: width * 0.78 };
    });
  }

  #drawSlots() {
    const context = this.#context(this.#still);
    const most = Math.max(1, ...this.#rings.flatMap((ring) => ring.occupied.map(([, count]) => count)));
    const radii = this.#radii();
    context.clearRect(0, 0, this.#size, this.#size);
    this.#rings.forEach((ring, index) => {
      context.lineWidth = radii[index].width;
      context.globalAlpha = 1;
      context.strokeStyle = this.#colours.slot;
      this.#stroke(
        context,
        ring,
        radii[index],
        Array.from({ length: ring.slots }, (_, slot) => slot),
      );
      context.strokeStyle = this.#colours.occupied;
      for (let brightness = 1; brightness <= BRIGHTNESS; brightness++) {
        const isThis = ([, count]) => Math.max(1, Math.ceil((BRIGHTNESS * Math.log1p(count)) / Math.log1p(most))) === brightness;
        context.globalAlpha = 0.3 + (0.7 * brightness) / BRIGHTNESS;
        this.#stroke(
          context,
          ring,
          radii[index],
          ring.occupied.filter(isThis).map(([slot]) => slot),
        );
      }
    });
    context.globalAlpha = 1;
  }

  // Draws slots of the same style as one path.
  #stroke(context, ring, { middle }, slots) {
    const middleOf = this.#size / 2;
    const each = TURN / ring.slots;
    const gap = Math.min(each * 0.25, 1.2 / middle);
    context.beginPath();
    for (const slot of slots) {
      const from = TOP + slot * each;
      context.moveTo(middleOf + middle * Math.cos(from), middleOf + middle * Math.sin(from));
      context.arc(middleOf, middleOf, middle, from, from + each - gap);
    }
    context.stroke();
  }

  #draw(now) {
    if (this.#size === 0) return;
    const context = this.#context(this.#canvas);
    context.clearRect(0, 0, this.#size, this.#size);
    context.drawImage(this.#still, 0, 0, this.#size, this.#size);
    if (this.#rings.length === 0) return;
    const radii = this.#radii();
    this.#rings.forEach((ring, index) => this.#drawHand(context, index, radii[index], now));
    const angle = TOP + (TURN * this.#position(0, now)) / this.#rings[0].slots;
    this.#drawComet(context, angle, radii);
    if (!this.#isQuiet) this.#flashes.draw(context, this.#size, radii[0].middle + radii[0].width / 2, angle, now);
  }

  // Clears the slots that the hand has passed since the sample, and marks its position on each ring.
  #drawHand(context, index, { middle, width }, now) {
    const [ring, half] = [this.#rings[index], this.#size / 2];
    const angle = (position) => TOP + (TURN * position) / ring.slots;
    const at = this.#position(index, now);
    const passed = Math.min(Math.max(0, Math.floor(at) - ring.hand), ring.slots);
    context.strokeStyle = this.#colours.slot;
    context.lineWidth = width;
    this.#stroke(
      context,
      ring,
      { middle },
      Array.from({ length: passed }, (_, index) => ring.hand + index),
    );
    context.strokeStyle = this.#colours.hand;
    context.lineWidth = 2;
    context.beginPath();
    for (const end of [-0.5, 0.5]) {
      const radius = middle + end * (width + 2);
      context.lineTo(half + radius * Math.cos(angle(at)), half + radius * Math.sin(angle(at)));
    }
    context.stroke();
  }

  // The finest hand crosses all rings and has a tail, like a comet.
  #drawComet(context, angle, radii) {
    const half = this.#size / 2;
    const radius = radii[0].middle + radii[0].width / 2 + 5;
    const [last] = radii.slice(-1);
    context.lineWidth = 1;
    context.globalAlpha = 0.45;
    context.beginPath();
    for (const end of [last.middle - last.width, radius]) context.lineTo(half + end * Math.cos(angle), half + end * Math.sin(angle));
    context.stroke();
    context.globalAlpha = 1;
    const tail = context.createConicGradient(angle - 1.1, half, half);
    tail.addColorStop(0, "transparent");
    tail.addColorStop(1.1 / TURN, this.#colours.hand);
    tail.addColorStop(1.1 / TURN + 0.001, "transparent");
    context.strokeStyle = tail;
    context.lineWidth = 3;
    context.beginPath();
    context.arc(half, half, radius, angle - 1.1, angle);
    context.stroke();
    context.fillStyle = this.#colours.hand;
    context.beginPath();
    context.arc(half + radius * Math.cos(angle), half + radius * Math.sin(angle), 4.5, 0, TURN);
    context.fill();
  }

  #context(canvas) {
    const context = canvas.getContext("2d");
    context.setTransform(this.#scale, 0, 0, this.#scale, 0, 0);
    return context;
  }
}
