"""A service that asks a node before it answers, with nothing but the standard library."""

import json
import sys
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT, NODE = int(sys.argv[1]), sys.argv[2]


def ask(user):
    """Returns whether the request may pass, and after how many milliseconds to come back."""
    body = json.dumps({"namespace": "api", "attributes": {"user": user}}).encode()
    try:
        # The longest that a request waits, usually for nothing. The first ones find a cold node.
        with urllib.request.urlopen(f"{NODE}/v1/check", body, timeout=1) as answer:
            decision = json.load(answer)
    except urllib.error.HTTPError as error:
        # The node refused the question: a mistake of ours, or a caller's name that is none. Its body says which.
        sys.stderr.write(error.read().decode() + "\n")
        return False, 0
    except OSError:
        # The node can't be asked: let requests pass, or return False to deny them.
        return True, 0
    return decision["allowed"], max([limit["retry_after_ms"] for limit in decision["limits"]], default=0)


class Service(BaseHTTPRequestHandler):
    def do_GET(self):
        # Take the user from what you have authenticated. A header that anybody may send is for trying it out.
        allowed, wait_ms = ask(self.headers.get("X-User", "anonymous"))
        self.send_response(200 if allowed else 429)
        if not allowed:
            self.send_header("Retry-After", str(-(-wait_ms // 1000)))
        self.send_header("Content-Length", "6" if allowed else "0")
        self.end_headers()
        self.wfile.write(b"hello\n" if allowed else b"")


ThreadingHTTPServer(("127.0.0.1", PORT), Service).serve_forever()
