// An HTTP service of node: each request makes Buffers of random sizes, holds them for a while, and keeps one of 500.
// Usage: node node.js PORT
const http = require("http");
const kept = [];

function random(seed) {
  let state = BigInt(seed) * 2n + 1n;
  return () => {
    state = (state * 6364136223846793005n + 1442695040888963407n) & 0xffffffffffffffffn;
    return Number(state >> 33n);
  };
}

function work(size, seed, done) {
  const next = random(seed);
  const buffers = [];
  for (let taken = 0; taken < size; ) {
    const length = 5000 + (next() % 100000);
    buffers.push(Buffer.alloc(length, 1));
    taken += length;
  }
  setTimeout(() => {
    for (const buffer of buffers) if (next() % 500 === 0) kept.push(buffer);
    done(buffers.length);
  }, 100);
}

http
  .createServer((request, response) => {
    const url = new URL(request.url, "http://localhost");
    work(Number(url.searchParams.get("size")), Number(url.searchParams.get("seed")), (count) => response.end(String(count)));
  })
  .listen(Number(process.argv[2]), "127.0.0.1");
