"""A service that answers each request by a query over many rows: by duckdb or by pyarrow. Usage: analytics.py duckdb|pyarrow PORT"""

import http.server
import sys
import threading
import urllib.parse

library, port = sys.argv[1], int(sys.argv[2])

if library == "duckdb":
    import duckdb

    database = duckdb.connect()
    database.execute("CREATE TABLE kept AS SELECT range AS id, 'name ' || range AS name FROM range(100000)")

    def query(rows, seed):
        cursor = database.cursor()
        cursor.execute(f"CREATE TABLE made{seed} AS SELECT range AS id, 'a text ' || hash(range + {seed}) AS text FROM range({rows})")
        found = cursor.execute(f"SELECT count(*) FROM (SELECT text, max(id) FROM made{seed} GROUP BY text)").fetchone()[0]
        cursor.execute(f"DROP TABLE made{seed}")
        return found

else:
    import pyarrow
    import pyarrow.compute

    kept = pyarrow.table({"id": range(100000)})

    def query(rows, seed):
        numbers = pyarrow.array(range(seed, seed + rows))
        texts = pyarrow.compute.cast(numbers, pyarrow.string())
        table = pyarrow.table({"text": texts, "key": pyarrow.compute.bit_wise_and(numbers, 4095)})
        return table.sort_by("text").group_by("key").aggregate([("text", "max")]).num_rows


# A server of analyses lets few queries run at a time.
few = threading.Semaphore(4)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        asked = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        with few:
            answer = str(query(int(asked["size"][0]) // 16, int(asked["seed"][0]))).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer.request_queue_size = 256
http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
