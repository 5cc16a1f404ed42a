// Converts PNG files to a palette of 256 colours. A screenshot takes a quarter of the bytes, without a
// visible difference.

import * as zlib from "node:zlib";

const SIGNATURE = Buffer.from("89504e470d0a1a0a", "hex");
const COLOURS = 256;

// Converts a PNG file. `png` must have the format that Chromium writes: 8 bits per channel, RGB, or RGBA
// without transparency.
export function withPalette(png) {
  const { width, height, pixels } = decode(png);
  const { palette, indexOf } = choosePalette(pixels);
  const rows = Buffer.alloc((width + 1) * height);
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) rows[y * (width + 1) + 1 + x] = indexOf(pixels[y * width + x]);
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 3], 8);
  const chunks = [
    chunk("IHDR", head),
    chunk("PLTE", Buffer.from(palette.flat())),
    chunk("IDAT", zlib.deflateSync(rows, { level: 9 })),
    chunk("IEND", Buffer.alloc(0)),
  ];
  return Buffer.concat([SIGNATURE, ...chunks]);
}

function chunk(type, data) {
  const body = Buffer.concat([Buffer.from(type), data]);
  const [length, check] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  check.writeUInt32BE(crc(body));
  return Buffer.concat([length, body, check]);
}

// Decodes each pixel into a number, 0xRRGGBB.
function decode(png) {
  const data = [];
  let width, height, channels;
  for (let at = SIGNATURE.length; at < png.length;) {
    const length = png.readUInt32BE(at);
    const type = png.toString("latin1", at + 4, at + 8);
    const body = png.subarray(at + 8, at + 8 + length);
    if (type === "IHDR") [width, height, channels] = [body.readUInt32BE(0), body.readUInt32BE(4), body[9] === 6 ? 4 : 3];
    if (type === "IDAT") data.push(body);
    at += length + 12;
  }
  const lines = unfiltered(zlib.inflateSync(Buffer.concat(data)), width * channels, height, channels);
  const pixels = new Uint32Array(width * height);
  for (let index = 0; index < pixels.length; index++) {
    const at = index * channels;
    pixels[index] = (lines[at] << 16) | (lines[at + 1] << 8) | lines[at + 2];
  }
  return { width, height, pixels };
}

function unfiltered(raw, stride, height, channels) {
  const lines = Buffer.alloc(stride * height);
  for (let y = 0; y < height; y++) {
    const filter = raw[y * (stride + 1)];
    for (let x = 0; x < stride; x++) {
      const left = x >= channels ? lines[y * stride + x - channels] : 0;
      const up = y > 0 ? lines[(y - 1) * stride + x] : 0;
      const corner = x >= channels && y > 0 ? lines[(y - 1) * stride + x - channels] : 0;
      const guess = [0, left, up, (left + up) >> 1, paeth(left, up, corner)][filter];
      lines[y * stride + x] = raw[y * (stride + 1) + 1 + x] + guess;
    }
  }
  return lines;
}

function paeth(left, up, corner) {
  const [toLeft, toUp, toCorner] = [Math.abs(up - corner), Math.abs(left - corner), Math.abs(left + up - 2 * corner)];
  if (toLeft <= toUp && toLeft <= toCorner) return left;
  return toUp <= toCorner ? up : corner;
}

// Chooses the most frequent colours for the palette. All other colours map to the nearest of these.
function choosePalette(pixels) {
  const counts = new Map();
  for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
  const parts = (pixel) => [pixel >> 16, (pixel >> 8) & 255, pixel & 255];
  const common = [...counts].sort(([, one], [, other]) => other - one).map(([pixel]) => pixel);
  // Fill the first half of the palette with the most frequent colours. In the second half, skip colours that
  // are close to one in the palette.
  const palette = common.slice(0, COLOURS / 2).map(parts);
  const distance = (one, other) => one.reduce((sum, part, index) => sum + (part - other[index]) ** 2, 0);
  for (const pixel of common.slice(COLOURS / 2)) {
    if (palette.length === COLOURS) break;
    if (palette.every((other) => distance(parts(pixel), other) > 120)) palette.push(parts(pixel));
  }
  const known = new Map();
  const nearest = (pixel) => {
    const distances = palette.map((colour) => distance(parts(pixel), colour));
    return distances.indexOf(Math.min(...distances));
  };
  return {
    palette,
    indexOf(pixel) {
      if (!known.has(pixel)) known.set(pixel, nearest(pixel));
      return known.get(pixel);
    },
  };
}

// Older versions of node lack `zlib.crc32`.
function crc(bytes) {
  if (zlib.crc32) return zlib.crc32(bytes);
  let sum = ~0;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit++) sum = (sum >>> 1) ^ (sum & 1 ? 0xedb88320 : 0);
  }
  return ~sum >>> 0;
}
