"""A small MCP server for the tests: lines on standard streams, or (argument `http`) JSON by POST."""
import json
import os
import signal
import sys
import threading
import time

if os.environ.get("STUBBORN"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)

NAMES = ["echo", "ask", "slow", "fail", "hidden"]
TOOLS = [{"name": n, "description": n, "inputSchema": {"type": "object"}} for n in NAMES]
TOOLS[0]["annotations"] = {"readOnlyHint": True}
lock, answers = threading.Lock(), {}


def send(message):
    with lock:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def said(text):
    return {"content": [{"type": "text", "text": text}]}


def ask(params):
    token = params.get("_meta", {}).get("progressToken")
    send({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1, "total": 2, "message": "half"}})
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    answers["q"] = threading.Event()
    send({"id": "q", "method": "elicitation/create", "params": {"message": "Your name?", "requestedSchema": schema}})
    answers["q"].wait()
    return said(json.dumps(answers["result"]))


def call(params):
    word = (params.get("arguments") or {}).get("word")
    if params["name"] == "echo":
        return said(str(os.getpid()) if word == "pid" else word)
    if params["name"] == "ask":
        return ask(params)
    if params["name"] == "slow":
        time.sleep(30)
    raise RuntimeError("out of nuts")


def result(method, params):
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}, "resources": {}},
                "serverInfo": {"name": "small", "version": "1"}}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return call(params)
    if method == "resources/list":
        return {"resources": [{"uri": "mem://a", "name": "a"}]}
    if method == "resources/read":
        return {"contents": [{"uri": params["uri"], "text": "content of " + params["uri"]}]}
    return {}


def answer(message):
    try:
        return {"id": message["id"], "result": result(message["method"], message.get("params") or {})}
    except RuntimeError as error:
        return {"id": message["id"], "error": {"code": -32000, "message": str(error)}}


def by_lines():
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") == "q":
            answers["result"] = message["result"]
            answers["q"].set()
        elif "id" in message:
            threading.Thread(target=lambda m=message: send(answer(m)), daemon=True).start()
    while os.environ.get("STUBBORN"):
        time.sleep(1)


def by_http():
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        def reply(self, status, body=b""):
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self):
            message = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if self.headers.get("x-pass") != "nut":
                return self.reply(403)
            if "id" not in message:
                return self.reply(202)
            self.reply(200, json.dumps({"jsonrpc": "2.0", **answer(message)}).encode())

        def do_GET(self):
            self.reply(405)

        do_DELETE = do_GET

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


by_http() if "http" in sys.argv else by_lines()
