"""Certificates made on the spot for this machine, by an authority that lasts as long as a test."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)


@dataclass(frozen=True)
class Certificate:
    """Where a certificate and its key lie, in PEM form."""

    cert: Path
    key: Path
    authority: trustme.CA

    def trust(self) -> ssl.SSLContext:
        """Return what a client needs to believe it."""
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        return context


def make_certificate(folder: Path) -> Certificate:
    """Write a certificate for 127.0.0.1 and its key."""
    folder.mkdir(parents=True, exist_ok=True)
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    found = Certificate(folder / "cert.pem", folder / "key.pem", authority)
    issued.cert_chain_pems[0].write_to_path(found.cert)
    issued.private_key_pem.write_to_path(found.key)
    return found


def lock_key(key: Path, passphrase: bytes) -> None:
    """Write the key anew, encrypted."""
    locked = load_pem_private_key(key.read_bytes(), None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(passphrase)
    )
    key.write_bytes(locked)
