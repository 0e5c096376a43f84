"""A server in the test process that answers as vLLM's /v1/completions does, with what a ResponseSampler says."""

import json
import threading
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any

import torch

from seper_reward.reader.engine import canary
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.reader.sampler import Request

Answer = tuple[int, Any]  # status, and a JSON value or raw bytes


class Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


class JsonHandler(BaseHTTPRequestHandler):
    """Reads and sends JSON; bytes are sent as they are."""

    protocol_version = "HTTP/1.1"

    def body(self):
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def reply(self, status, answer, headers=MappingProxyType({})):
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        with suppress(BrokenPipeError, ConnectionResetError):  # the client has gone
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", "Content-Length": len(data), **headers}.items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(data)

    def log_message(self, *_):
        pass


@contextmanager
def serving(handler):
    """Serve in a thread on a free port of this machine; yield the address."""
    http = Http(("127.0.0.1", 0), handler)
    threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{http.server_port}"
    finally:
        http.shutdown()
        http.server_close()


def json_server(answer):
    """Serve what ``answer(path, headers, body)`` returns: status, headers and body."""

    class Handler(JsonHandler):
        def do_POST(self):
            status, headers, answered = answer(self.path, dict(self.headers), self.body())
            self.reply(status, answered, headers)

    return serving(Handler)


def prompts_of(body: dict) -> list:
    """Return the prompts of a request, each a text or its token ids."""
    prompt = body["prompt"]
    return prompt if isinstance(prompt, list) and isinstance(prompt[0], list) else [prompt]


@dataclass
class CompletionsServer:
    """What a server says and how it misbehaves.

    ``fault`` sees a request and returns what to answer instead, or ``None``; ``spoil`` changes a right answer.
    """

    sampler: ResponseSampler
    model: str = "tiny"
    window: int | None = 512
    names_ids: bool = True
    reads_prompts: bool = True  # answers prompt_logprobs, as vLLM does
    fault: Callable[[dict], Answer | None] = lambda body: None
    spoil: Callable[[dict, dict], None] = lambda body, answer: None
    adapters: tuple[str, ...] = ()
    vllm_config: dict | str | None = None  # what a server in development mode shows
    requests: list[dict] = field(default_factory=list)
    canaries: list[dict] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0
    url: str = ""
    _lock: Any = field(default_factory=threading.Lock)
    _drawn: dict = field(default_factory=dict)
    _taken: set = field(default_factory=set)

    @contextmanager
    def running(self):
        with serving(handler(self)) as url:
            self.url = f"{url}/v1"
            yield self

    def move_to(self, sampler: ResponseSampler) -> None:
        """Answer with other weights from now on."""
        self.sampler, self._drawn = sampler, {}

    def models(self) -> dict:
        base = {"id": self.model, "root": f"/models/{self.model}", "max_model_len": self.window, "parent": None}
        return {"data": [base, *({"id": name, "root": "/tmp", "parent": self.model} for name in self.adapters)]}

    def complete(self, body: dict) -> Answer:
        if body["prompt"] == canary.PROBE:
            self.canaries.append(body)
            with self._lock:
                return 200, self.greedy(body)
        self.requests.append(body)
        if body["model"] != self.model:
            return 404, {"error": {"message": f"The model {body['model']} does not exist"}}
        if (faulty := self.fault(body)) is not None:
            return faulty
        answers = [self.answer({**body, "prompt": prompt}) for prompt in prompts_of(body)]
        choices = [
            {**choice, "index": body["n"] * place + choice["index"]}
            for place, answer in enumerate(answers)
            for choice in answer["choices"]
        ]
        self.spoil(body, answer := {**answers[0], "choices": choices})
        return 200, answer

    def answer(self, body: dict) -> dict:
        with self._lock:
            answer = self.draw(body)
            if self.reads_prompts and body.get("prompt_logprobs") is not None:
                self.read(body, answer)
        return answer

    def read(self, body: dict, answer: dict) -> None:
        """Add the log-probabilities of the prompt, and of the likeliest tokens after it."""
        prompt = body["prompt"]
        ids = list(self.sampler.tokenizer(prompt).input_ids) if isinstance(prompt, str) else prompt
        with torch.no_grad():
            found = self.sampler.model(input_ids=torch.tensor([ids])).logits[0].float().log_softmax(-1)
        forced = found[:-1].gather(1, torch.tensor(ids)[1:, None])[:, 0].tolist()
        values, tokens = found[-1].topk(body["logprobs"])
        for choice in answer["choices"]:
            rows = zip(ids[1:], forced, strict=True)
            choice["prompt_logprobs"] = [None, *({str(token): {"logprob": value}} for token, value in rows)]
            likeliest = dict(zip(self.named(tokens.tolist()), values.tolist(), strict=True))
            choice["logprobs"]["top_logprobs"] = [likeliest]

    def greedy(self, body: dict) -> dict:
        ids, tokens, rows = list(self.sampler.tokenizer(body["prompt"]).input_ids), [], []
        for _ in range(body["max_tokens"]):
            with torch.no_grad():
                found = self.sampler.model(input_ids=torch.tensor([ids])).logits[0, -1].float().log_softmax(-1)
            values, likeliest = found.topk(body["logprobs"])
            rows.append(dict(zip(self.named(likeliest.tolist()), values.tolist(), strict=True)))
            tokens += self.named(likeliest[:1].tolist())
            ids.append(int(likeliest[0]))
        log_probs = [max(row.values()) for row in rows]
        found = {"tokens": tokens, "token_logprobs": log_probs, "top_logprobs": rows}
        return {"choices": [{"index": 0, "text": "", "finish_reason": "length", "logprobs": found}]}

    def draw(self, body: dict) -> dict:
        tokenizer, prompt = self.sampler.tokenizer, body["prompt"]
        ids = tuple(tokenizer(prompt).input_ids if isinstance(prompt, str) else prompt)
        rows = self.rest_of_a_response(ids, body) or self.rows(ids)
        choices = [self.choice(index, *row, body) for index, row in enumerate(rows[: body["n"]])]
        if body.get("return_token_ids"):
            choices[0]["prompt_token_ids"] = list(ids)
        return {"choices": choices[::-1]}  # in no particular order

    def rows(self, ids):
        if ids not in self._drawn:
            (responses,) = self.sampler.sample([Request(self.sampler.tokenizer.decode(ids))])
            ended = zip(responses.token_ids, responses.token_log_probs, responses.finished, strict=True)
            self._drawn[ids] = [(tokens, log_probs.tolist(), finished) for tokens, log_probs, finished in ended]
        return self._drawn[ids]

    def rest_of_a_response(self, ids, body):
        """Go on with a response that was ended too early, one of those that begin like this."""
        for prompt, rows in list(self._drawn.items()):
            said = ids[len(prompt) :]
            if not said or ids[: len(prompt)] != prompt or body["n"] != 1:
                continue
            for place, (tokens, log_probs, finished) in enumerate(rows):
                if tokens[: len(said)] == said and (prompt, place, said) not in self._taken:
                    self._taken.add((prompt, place, said))
                    return [(tokens[len(said) :], log_probs[len(said) :], finished)]
        return None

    def choice(self, index, tokens, log_probs, finished, body):
        """Stop as a server does: at the first stop string, wherever it is."""
        text = self.sampler.tokenizer.decode
        stop_reason = None
        for length in range(1, len(tokens) + 1):
            stop_reason = next((stop for stop in body.get("stop", ()) if stop in text(tokens[:length])), None)
            if stop_reason is not None:
                tokens, log_probs, finished = tokens[:length], log_probs[:length], True
                break
        return {
            "index": index,
            "text": text(tokens, skip_special_tokens=True),
            "finish_reason": "stop" if finished else "length",
            "stop_reason": stop_reason,
            "logprobs": {"tokens": self.named(tokens), "token_logprobs": list(log_probs)},
        }

    def named(self, tokens):
        return [f"token_id:{token}" if self.names_ids else self.sampler.tokenizer.decode([token]) for token in tokens]


def handler(server: CompletionsServer):
    class Handler(JsonHandler):
        def do_GET(self):
            if self.path.startswith("/v1/models"):
                self.reply(200, server.models())
            elif self.path == "/server_info?config_format=json" and server.vllm_config is not None:
                failed = server.vllm_config == "failed"
                self.reply(500 if failed else 200, {"vllm_config": server.vllm_config})
            else:
                self.reply(404, {"detail": "Not Found"})

        def do_POST(self):
            body = self.body()
            server.keys.append(self.headers["Authorization"])
            server.in_flight += 1
            server.most_in_flight = max(server.most_in_flight, server.in_flight)
            status, answer = server.complete(body)
            server.in_flight -= 1
            self.reply(status, answer, {"retry-after-ms": 1})

    return Handler
