"""`version` names what runs."""

import json
import platform
from importlib import metadata


def test_version(leeway):
    ours = metadata.version("leeway-llm")
    assert leeway("version").out.startswith(f"leeway {ours} (python {platform.python_version()}, ")
    report = json.loads(leeway("version", "--json").out)
    assert report["leeway"] == ours and report["openvino"] == metadata.version("openvino")


def test_the_flag_is_the_verb(leeway):
    assert leeway("--version") == leeway("version")
    assert leeway("--version").code == 0
    assert leeway("--version", "--json") == leeway("version", "--json")


def test_verbs_that_need_no_model_load_no_engine(leeway):
    words = "import sys; from leeway.cli.main import main; main(['laws', '--quiet']); "
    words += "heavy = {'openvino', 'tokenizers', 'starlette', 'huggingface_hub'} & set(sys.modules)"
    process = __import__("subprocess").run(
        [__import__("sys").executable, "-c", words + "; sys.exit(bool(heavy))"],
        capture_output=True,
        check=False,
    )
    assert process.returncode == 0
