"""An API server of one service's EndpointSlices, over TLS. In: a folder with key.pem and cert.pem, a port, a file of peers (`ADDRESS NODE`
a line). Out: lists, and watches in which nothing happens, as in a quiet cluster.

    python3 api.py FOLDER PORT PEERS
"""
import json
import ssl
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

folder, port, peers = sys.argv[1], int(sys.argv[2]), [line.split() for line in open(sys.argv[3])]


def slices():
    """Of at most a hundred endpoints each, as Kubernetes makes them."""
    for at in range(0, len(peers), 100):
        yield {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "addressType": "IPv4",
            "metadata": {"name": f"kube-canary-{at}", "namespace": "default", "resourceVersion": "5"},
            "endpoints": [
                {"addresses": [address], "nodeName": node, "conditions": {"ready": True}}
                for address, node in peers[at : at + 100]
            ],
        }


class Api(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("content-type", "application/json")
        if "watch=" in self.path:
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            self.wfile.flush()
            time.sleep(90)
            self.wfile.write(b"0\r\n\r\n")
            return
        found = list(slices())
        wanted = dict(pair.split("=", 1) for pair in self.path.partition("?")[2].split("&") if "=" in pair)
        begin, most = int(wanted.get("continue") or 0), int(wanted.get("limit") or len(found))
        more = {"continue": str(begin + most)} if begin + most < len(found) else {}
        body = json.dumps({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSliceList",
            "metadata": {"resourceVersion": "5", **more},
            "items": found[begin : begin + most],
        }).encode()
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", port), Api)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(f"{folder}/cert.pem", f"{folder}/key.pem")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
