"""Our own time-stamping authority (RFC 3161), by openssl: as a server, and with any clock to forge evidence."""

from __future__ import annotations

import datetime
import hashlib
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="the authority is openssl's")

_SETTINGS = """
[tsa]
serial = {folder}/serial
signer_cert = {folder}/signer.pem
signer_key = {folder}/signer.key
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256
ess_cert_id_alg = sha256
"""
_SHA256 = bytes.fromhex("608648016503040201")
_POLICY = bytes.fromhex("2a030401")


class Authority:
    """An authority. Its root certificate lies at `root`; the one that signs has the extended key usage timeStamping."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, folder / "root.pem"
        folder.mkdir(parents=True, exist_ok=True)
        key, signing = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
        root = _certificate("example-org root", key, "example-org root", key, x509.BasicConstraints(True, None))
        usage = x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.TIME_STAMPING])
        signer = _certificate("example-org time", signing, "example-org root", key, usage)
        self.root.write_bytes(root.public_bytes(serialization.Encoding.PEM))
        (folder / "signer.pem").write_bytes(signer.public_bytes(serialization.Encoding.PEM))
        pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
        content = signing.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
        (folder / "signer.key").write_bytes(content)
        (folder / "serial").write_text("01\n")
        (folder / "tsa.cnf").write_text(_SETTINGS.format(folder=folder))

    def reply(self, query: bytes) -> bytes:
        """What the authority answers to a query, by its own clock."""
        (self.folder / "query").write_bytes(query)
        words = ("-config", self.folder / "tsa.cnf", "-section", "tsa", "-queryfile", self.folder / "query")
        return _openssl("ts", "-reply", *words)

    def stamp(self, content: bytes, seconds: float) -> bytes:
        """The response that stamps `content` at any time, in seconds since the epoch."""
        when = datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y%m%d%H%M%SZ")
        imprint = _der(0x30, _der(0x30, _der(6, _SHA256)), _der(4, hashlib.sha256(content).digest()))
        info = _der(0x30, _der(2, b"\1"), _der(6, _POLICY), imprint, _der(2, b"\7"), _der(0x18, when.encode()))
        (self.folder / "info").write_bytes(info)
        signer = ("-signer", self.folder / "signer.pem", "-inkey", self.folder / "signer.key", "-md", "sha256")
        kind = ("-econtent_type", "1.2.840.113549.1.9.16.1.4", "-nodetach", "-binary", "-cades", "-outform", "DER")
        token = _openssl("cms", "-sign", *signer, *kind, "-in", self.folder / "info")
        return _der(0x30, _der(0x30, _der(2, b"\0")), token)


@contextmanager
def serving(answer: Callable[[bytes], tuple[int, bytes]]) -> Iterator[str]:
    """The address of a server that answers each query with a status and a body."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            status, body = answer(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(status)
            self.send_header("Content-Type", "application/timestamp-reply")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/stamps"
    finally:
        server.shutdown()
        server.server_close()


def _certificate(subject, key, issuer, issuing, extension) -> x509.Certificate:
    subject, issuer = (x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]) for name in (subject, issuer))
    made = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(datetime.datetime(2020, 1, 1)).not_valid_after(datetime.datetime(2045, 1, 1))
    return made.add_extension(extension, critical=True).sign(issuing, hashes.SHA256())


def _der(tag: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    size = len(body).to_bytes((len(body).bit_length() + 7) // 8, "big")
    return bytes([tag, *([len(body)] if len(body) < 128 else [0x80 | len(size), *size])]) + body


def _openssl(*words: object) -> bytes:
    return subprocess.run(["openssl", *map(str, words)], capture_output=True, check=True).stdout
