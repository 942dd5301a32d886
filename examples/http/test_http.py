"""Follows README.md, and compares the answers to good and wrong requests."""

import http.client
import pathlib
import socket
import subprocess
import time

import numpy as np
import pytest
from dlbridge import tensorflow

HERE = pathlib.Path(__file__).parent
PROTOBUF = "application/x-protobuf"
IMAGES = np.arange(2 * 4 * 5 * 3, dtype=np.float32).reshape(2, 4, 5, 3)
BODY = tensorflow.encode(IMAGES)
LIMIT = 16 << 20


def listens(address):
    """Reports whether a server listens at an address."""
    host, port = address.split(":")
    with socket.socket() as attempt:
        return attempt.connect_ex((host, int(port))) == 0


def test_example_prints_what_the_readme_says(follow, address):
    follow(HERE)
    assert not listens(address)


@pytest.fixture
def ask(run, build, address):
    """Starts the server and returns a function that sends a request. At the end the server must still run."""
    built = run("go build -o build/http ./examples/http")
    assert built.returncode == 0, built.stderr
    with subprocess.Popen([build / "http", "-address", address]) as server:
        try:
            while server.poll() is None and not listens(address):
                time.sleep(0.01)

            def ask(body, method="POST", content_type=PROTOBUF, length=None):
                connection = http.client.HTTPConnection(address, timeout=60)
                connection.putrequest(method, "/means")
                connection.putheader("Content-Type", content_type)
                connection.putheader("Content-Length", str(len(body) if length is None else length))
                connection.endheaders()
                try:
                    connection.send(body)
                    connection.sock.shutdown(socket.SHUT_WR)
                except OSError:
                    pass  # the server has answered already, and reads no further
                answer = connection.getresponse()
                data = answer.read()
                connection.close()
                return answer.status, answer.headers["Content-Type"], data

            yield ask
            assert server.poll() is None
        finally:
            server.kill()


def test_answers_are_the_means_of_numpy(ask):
    for images in IMAGES, IMAGES[:1], IMAGES[:0]:
        status, content_type, data = ask(tensorflow.encode(images))
        assert (status, content_type) == (200, PROTOBUF)
        means = tensorflow.decode_tensor(data)
        assert means.dtype == "float32"
        np.testing.assert_allclose(means, images.reshape(len(images), 60).mean(axis=1) / 255, rtol=1e-6)


def zeros(*shape):
    """A TensorProto of float32 without a value, so that zeros stand for its elements. NumPy has no arrays of some of the shapes."""

    def field(number, value):
        return bytes([number << 3 | 2, len(value)]) + value

    def varint(n):
        return bytes([n]) if n < 128 else bytes([n % 128 | 128]) + varint(n >> 7)

    return b"\x08\x01" + field(2, b"".join(field(2, b"\x08" + varint(size)) for size in shape))


def test_an_empty_batch_may_have_images_of_any_size(ask):
    for shape in (0, 0, 0, 3), (0, 2**62, 2**62, 3), (0, 2**61, 8, 3):
        status, _, data = ask(zeros(*shape))
        assert status == 200, data
        assert tensorflow.decode_tensor(data).shape == (0,)


NO_PIXELS = "images without pixels have no mean"
TYPE = "dlpack: require: the tensor has float64, want float32"
RANK = "dlpack: require: the shape [4 5 3] has 3 dimensions, want 4"
COLOURS = "dlpack: require: dimension 3 of the shape [2 4 5 2] has size 2, want 3"
STRINGS = "tensorflow: the message holds string[1], whose type DLPack lacks: data type not representable"
CUT = "tensorflow: byte 20: not a TensorProto: field 4 has 480 bytes, but only 471 are left: malformed protocol buffer"
EMPTY = "tensorflow: byte 0: not a TensorProto: empty message: malformed protocol buffer"
END = "tensorflow: after 494 of 503 bytes of the message: unexpected EOF"
BODY_TOO_LARGE = "tensorflow: after 16777216 of 16777217 bytes of the message: http: request body too large"
TENSOR_TOO_LARGE = "tensorflow: byte 22: 4194306 elements of float, repeated from 0 values, need more than 16777216 bytes: more memory than is allowed"
CONTENT_TYPE = "the body must be a TensorProto, with Content-Type: application/x-protobuf"


@pytest.mark.parametrize(
    ("request_", "status", "text"),
    [
        pytest.param({"body": tensorflow.encode(IMAGES.astype(np.float64))}, 400, TYPE, id="type"),
        pytest.param({"body": tensorflow.encode(tensorflow.Elements("string", (1,), [b"text"]))}, 400, STRINGS, id="strings"),
        pytest.param({"body": tensorflow.encode(IMAGES[0])}, 400, RANK, id="rank"),
        pytest.param({"body": tensorflow.encode(IMAGES[..., :2])}, 400, COLOURS, id="colours"),
        pytest.param({"body": zeros(2, 0, 4, 3)}, 400, NO_PIXELS, id="no rows"),
        pytest.param({"body": zeros(2**60, 0, 4, 3)}, 400, NO_PIXELS, id="very many images without rows"),
        pytest.param({"body": BODY[:-9]}, 400, CUT, id="message cut short"),
        pytest.param({"body": BODY[:-9], "length": len(BODY)}, 400, END, id="body cut short"),
        pytest.param({"body": b""}, 400, EMPTY, id="empty body"),
        pytest.param({"body": bytes(LIMIT + 1)}, 413, BODY_TOO_LARGE, id="too large a body"),
        pytest.param({"body": zeros(LIMIT // 12 + 1, 1, 1, 3)}, 413, TENSOR_TOO_LARGE, id="small body for too large a tensor"),
        pytest.param({"body": BODY, "content_type": "application/json"}, 415, CONTENT_TYPE, id="content type"),
        pytest.param({"body": b"", "method": "GET"}, 405, "Method Not Allowed", id="GET"),
    ],
)
def test_wrong_requests_get_a_status_and_a_text(ask, request_, status, text):
    assert ask(**request_) == (status, "text/plain; charset=utf-8", f"{text}\n".encode())
