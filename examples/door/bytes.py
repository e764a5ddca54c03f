"""A server behind a proxy or a cache: it answers ?size=N with N bytes. Usage: bytes.py PORT"""

import http.server
import os
import sys
import urllib.parse

some = os.urandom(1 << 20)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        size = int(urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)["size"][0])
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        while size > 0:
            self.wfile.write(some[:size])
            size -= len(some)

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer.request_queue_size = 256
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
