# Node: V8 with its compiler threads, worker threads, libuv's pool, and a server on a socket.
packages="nodejs"
program() { readlink -f "$(command -v node)"; }
version() { node --version | tr -d v; }
run() {
    cat > all.js << 'NODE'
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const [crypto, zlib, http, fs] = ['crypto', 'zlib', 'http', 'fs'].map(require);
const { promisify } = require('util');
const sha = (text) => crypto.createHash('sha256').update(text).digest('hex').slice(0, 16);
if (!isMainThread) {
  const rows = Array.from({ length: 3000 + workerData }, (_, i) => ({ i, text: 'x'.repeat(i % 200) }));
  parentPort.postMessage(sha(JSON.stringify(JSON.parse(JSON.stringify(rows)))));
} else {
  (async () => {
    const workers = [1, 2, 3, 4].map((n) => new Promise((resolve, reject) => {
      const worker = new Worker(__filename, { workerData: n });
      worker.once('message', resolve).once('error', reject);
    }));
    console.log((await Promise.all(workers)).join(' '));
    const keys = await Promise.all([...Array(12).keys()].map((n) => promisify(crypto.pbkdf2)('word', `salt${n}`, 2000, 32, 'sha256')));
    console.log(sha(Buffer.concat(keys)));
    const packed = await Promise.all([...Array(12).keys()].map((n) => promisify(zlib.gzip)('abc'.repeat(50000 + n))));
    const sizes = await Promise.all(packed.map(async (bytes) => (await promisify(zlib.gunzip)(bytes)).length));
    console.log(sizes.reduce((a, b) => a + b));
    const server = http.createServer((request, response) => setTimeout(() => response.end(request.url.repeat(500)), 3));
    await new Promise((resolve) => server.listen('node.sock', resolve));
    const ask = (n) => new Promise((resolve, reject) => http.get({ socketPath: 'node.sock', path: `/${n}` }, (answer) => {
      let length = 0;
      answer.on('data', (part) => { length += part.length; }).on('end', () => resolve(length));
    }).on('error', reject));
    console.log((await Promise.all([...Array(80).keys()].map(ask))).reduce((a, b) => a + b));
    server.close();
    server.closeAllConnections();
    await fs.promises.writeFile('file', 'z'.repeat(1e6));
    console.log((await fs.promises.readFile('file')).length);
    process.exitCode = 4;
  })();
}
NODE
    node all.js
}
