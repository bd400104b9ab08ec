"""An OTLP collector for tests: reads what it is sent with OpenTelemetry's own definitions, strictly.

Prints its port, then a line of JSON for each message: the path and what was understood, or the problem. The first
message of logs is answered by 503: a collector that is busy is asked again.
"""

import base64
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

MESSAGES = {
    "/v1/metrics": ExportMetricsServiceRequest,
    "/v1/logs": ExportLogsServiceRequest,
    "/v1/traces": ExportTraceServiceRequest,
}
IDS = {"traceId", "spanId", "parentSpanId"}
refused = set()


def with_ids_as_protobuf_has_them(value):
    """OTLP's JSON writes ids as hexadecimal digits, where protobuf's would have base64."""
    if isinstance(value, list):
        return [with_ids_as_protobuf_has_them(item) for item in value]
    if isinstance(value, dict):
        return {
            key: base64.b64encode(bytes.fromhex(item)).decode() if key in IDS else with_ids_as_protobuf_has_them(item)
            for key, item in value.items()
        }
    return value


class Collector(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status, line = 200, {"path": self.path}
        try:
            assert self.headers["Content-Type"] == "application/json", self.headers
            sent = json.loads(body)
            message = json_format.ParseDict(
                with_ids_as_protobuf_has_them(sent), MESSAGES[self.path](), ignore_unknown_fields=False
            )
            assert message.ByteSize() > 0
            line["sent"] = sent
        except Exception as problem:
            status, line["problem"] = 400, f"{problem}: {body[:2000]!r}"
        if self.path == "/v1/logs" and status == 200 and self.path not in refused:
            refused.add(self.path)
            status, line = 503, {"path": self.path, "refused": True}
        print(json.dumps(line), flush=True)
        self.send_response(status)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *arguments):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
print(server.server_port, flush=True)
server.serve_forever()
