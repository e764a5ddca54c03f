// Packs and unpacks buffers, in node's own threads; prints the counts each second.
const zlib = require("zlib");
let rounds = 0, wrong = 0;
function round(seed) {
  const bytes = Buffer.alloc(4000 + (seed % 3000), String(seed));
  zlib.deflate(bytes, (error, packed) => {
    if (error) { wrong++; return setTimeout(round, 1, seed + 1); }
    zlib.inflate(packed, (error, out) => {
      if (error || !out.equals(bytes)) wrong++;
      rounds++;
      setTimeout(round, rounds % 8 ? 0 : 2, seed + 1);
    });
  });
}
for (let at = 1; at <= 4; at++) round(at * 1000);
setInterval(() => console.log(`rounds=${rounds} wrong=${wrong}`), 1000);
