"""Recipes of rivals: the grammar, what is present, and what is said of what is not."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from leeway.bench import rivals
from leeway.bench.http_stream import get_json
from leeway.bench.rivals import (
    RECIPES,
    Presence,
    Recipe,
    RivalSpec,
    definition,
    parse_rival,
    presence,
    running_rival,
)
from leeway.core.errors import ConfigError

SERVER = """
import http.server, json, sys
asked = json.loads(sys.argv[1])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"data": [{"id": asked["name"]}], "asked": asked}).encode())
    def log_message(self, *_):
        pass
http.server.HTTPServer(("127.0.0.1", asked["port"]), Handler).serve_forever()
"""


def test_a_bare_recipe():
    llama = RECIPES["llama.cpp"]
    extra = {"cache_prompt": False}
    assert parse_rival("rival:llama.cpp") == RivalSpec(
        "rival:llama.cpp", llama, sys.executable, "none", None, None, None, extra
    )


def test_every_part():
    text = "it=rival:llama.cpp,python=/env/bin/python,speculation=draft,draft_tokens=3,"
    spec = parse_rival(text + "draft_model=/models/small.gguf,body.n_probs=1")
    assert (spec.name, spec.python, spec.speculation) == ("it", "/env/bin/python", "draft")
    assert (spec.draft_tokens, spec.match_tokens, spec.draft_model) == (
        3,
        None,
        "/models/small.gguf",
    )
    assert spec.extra == {"cache_prompt": False, "n_probs": 1}
    assert definition(spec, "1.2", 2) == (
        "rival:llama.cpp,xllamacpp=1.2,threads=2,speculation=draft,draft_tokens=3,"
        "draft_model=small.gguf"
    )
    other = parse_rival("rival:openvino-genai,file=/models/q8.gguf")
    assert other.file == "/models/q8.gguf"
    assert definition(other, "3", 4).endswith(",speculation=none,file=q8.gguf")
    lookup = parse_rival("rival:llama.cpp,speculation=ngram,match_tokens=2,draft_tokens=8")
    assert definition(lookup, "1", 2).endswith("speculation=ngram,draft_tokens=8,match_tokens=2")
    plain = parse_rival("rival:openvino-genai")
    assert definition(plain, "3", 4) == (
        "rival:openvino-genai,openvino-genai=3,threads=4,speculation=none"
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("rival:lama.cpp", "has the recipe 'lama.cpp'; did you mean 'llama.cpp'?"),
        ("rival:vllm", "cannot be started: its CPU build takes a folder"),
        ("rival:transformers,speculation=ngram-mod", "transformers can do none, ngram, draft"),
        ("rival:llama.cpp,speculation=mtp", "has speculation=mtp"),
        ("rival:openvino-genai,speculation=draft", "openvino-genai can do none, ngram"),
        ("rival:llama.cpp,speculation=draft", "speculation=draft and draft_model=FILE go together"),
        ("rival:llama.cpp,draft_model=a.gguf", "go together"),
        ("rival:llama.cpp,draft_tokens=2", "gives draft_tokens, which speculation=none has not"),
        (
            "rival:llama.cpp,speculation=draft,draft_model=a,match_tokens=2",
            "gives match_tokens, which speculation=draft has not",
        ),
        (
            "rival:llama.cpp,speculation=ngram,draft_tokens=0",
            "has draft_tokens that is out of range",
        ),
        (
            "rival:llama.cpp,speculation=ngram,match_tokens=x",
            "has match_tokens that is not an integer",
        ),
        ("rival:llama.cpp,threads=2", "has the option 'threads'"),
        ("rival:llama.cpp,model=a", "has an option of a URL"),
        ("rival:llama.cpp,send=text", "has an option of a URL"),
        ("rival:llama.cpp,body.seed=1", "sets body.seed"),
        ("a b=rival:llama.cpp", "has the name 'a b'"),
    ],
)
def test_what_no_recipe_can_do_is_refused(text, says):
    with pytest.raises(ConfigError) as caught:
        parse_rival(text)
    assert says in caught.value.message and repr(text) in caught.value.message


def test_presence_is_read_from_the_environment_that_is_named():
    there = Recipe("it", "pytest", script="x.py")
    assert presence(there, sys.executable) == Presence(pytest.__version__, None)
    gone = presence(Recipe("it", "no-such-package", script="x.py"), sys.executable)
    assert gone.version is None and "no-such-package is not installed there" in gone.reason
    assert "cannot be run" in presence(there, "/no/such/python").reason
    documented = presence(Recipe("it", "pytest", why_not="no server"), sys.executable)
    assert documented == Presence(pytest.__version__, "no server")
    neither = presence(Recipe("it", "no-such-package", why_not="no server"), sys.executable)
    assert neither == Presence(None, "no server")


def test_every_recipe_starts_a_script_or_says_why_not():
    for recipe in RECIPES.values():
        assert (recipe.script is None) == (recipe.why_not is not None)
        if recipe.script is not None:
            path = Path(rivals.__file__).parent / "rival_servers" / recipe.script
            compile(path.read_text(), str(path), "exec")
            assert "import leeway" not in path.read_text()
        if recipe.engine is not None:
            assert (path.parent / f"{recipe.engine}.py").is_file()


@pytest.fixture
def fake_recipe(tmp_path, monkeypatch):
    (tmp_path / "fake.py").write_text(SERVER)
    (tmp_path / "broken.py").write_text("raise SystemExit('no such architecture')")
    monkeypatch.setattr(rivals, "_SCRIPTS", tmp_path)
    return Recipe("fake", "pytest", ("none", "ngram"), "fake.py", extra={"cold": True})


def spec_of(recipe):
    return RivalSpec("it", recipe, sys.executable, "ngram", 3, None, None, recipe.extra)


def test_a_rival_runs_on_the_file_that_it_is_given_and_is_stopped(fake_recipe, tmp_path):
    model = tmp_path / "tiny.gguf"
    model.touch()
    with running_rival(spec_of(fake_recipe), model, num_threads=2, context_len=512) as spec:
        found = get_json(spec.url + "/models", 5)
        url = spec.url
    assert found["asked"] == {
        "engine": None,
        "model": str(model),
        "name": "tiny",
        "port": found["asked"]["port"],
        "threads": 2,
        "context": 512,
        "speculation": "ngram",
        "draft_model": None,
        "draft_tokens": 3,
        "match_tokens": None,
    }
    version = pytest.__version__
    assert (spec.name, spec.model, spec.send, spec.extra) == (
        "it",
        "tiny",
        "tokens",
        {"cold": True},
    )
    assert spec.text == (
        f"rival:fake,pytest={version},threads=2,speculation=ngram,draft_tokens=3,"
        f"model=tiny,send=tokens,body.cold={json.dumps(True)}"
    )
    with pytest.raises(OSError, match="refused"):
        get_json(url + "/models", 5)


def test_a_rival_may_have_a_file_of_its_own(fake_recipe, tmp_path):
    own = tmp_path / "other.gguf"
    spec = replace(spec_of(fake_recipe), file=str(own))
    started = running_rival(spec, tmp_path / "tiny.gguf", num_threads=2, context_len=512)
    with pytest.raises(ConfigError, match=r"there is no .*other\.gguf'; correct file="), started:
        pass
    own.touch()
    started = running_rival(spec, tmp_path / "tiny.gguf", num_threads=2, context_len=512)
    with started as served:
        assert get_json(served.url + "/models", 5)["asked"]["model"] == str(own)
        assert served.model == "other"


def test_a_rival_that_does_not_come_up_says_why(fake_recipe, tmp_path):
    broken = Recipe("fake", "pytest", script="broken.py")
    missing = Recipe("fake", "no-such-package", script="fake.py")
    for recipe, says in ((broken, "no such architecture"), (missing, "is not installed there")):
        started = running_rival(spec_of(recipe), tmp_path, num_threads=1, context_len=256)
        with pytest.raises(ConfigError, match=says), started:
            pass
