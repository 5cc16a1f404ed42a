// Animation of expired timers, which fly off the hand. Each kind of timer has its own sign. If there are very
// many, only some are drawn.

export const SIGNS = {
  ping: "●",
  pong: "▲",
  poll_hold: "■",
  poll_gap: "□",
  reconnect: "◆",
  idle: "○",
  token: "★",
  lifetime: "✚",
  sleep: "▸",
  log: "▬",
  reminder: "♦",
};

export const signOf = (kind) => SIGNS[kind] ?? "•";

const LIFE_MS = 900;
const MOST_OF_A_KIND = 8;
const MOST = 120;

export class Flashes {
  #flying = []; // { sign, colour, from: start time, angle: set at the start, drift }
  #colourOf;

  constructor(colourOf) {
    this.#colourOf = colourOf;
  }

  // Adds the expiries of the last second, by kind. They are drawn over the next second.
  add(expired, now = performance.now()) {
    for (const [kind, count] of Object.entries(expired)) {
      const shown = Math.min(Math.ceil(Math.log2(1 + count)), MOST_OF_A_KIND);
      for (let each = 0; each < shown && this.#flying.length < MOST; each++) {
        this.#flying.push({
          sign: signOf(kind),
          colour: this.#colourOf(kind),
          from: now + 1000 * Math.random(),
          drift: Math.random() - 0.5,
        });
      }
    }
  }

  draw(context, size, radius, angle, now) {
    this.#flying = this.#flying.filter(({ from }) => now - from < LIFE_MS);
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.font = `${Math.round(size / 34)}px system-ui, sans-serif`;
    for (const flash of this.#flying) {
      const age = (now - flash.from) / LIFE_MS;
      if (age < 0) continue;
      flash.angle ??= angle;
      const at = flash.angle + flash.drift * age * 0.12;
      const far = radius + 8 + (size / 2 - radius - 16) * (1 - (1 - age) ** 2);
      context.globalAlpha = 1 - age ** 2;
      context.fillStyle = flash.colour;
      context.fillText(flash.sign, size / 2 + far * Math.cos(at), size / 2 + far * Math.sin(at));
    }
    context.globalAlpha = 1;
  }
}
