"""The demo's chart names law, knob, guarantee and n."""

from xml.etree import ElementTree

from leeway.bench.side_by_side import Arm, ArmResult
from leeway.bench.side_by_side_chart import speed_against_loss
from leeway.core.receipt import Receipt, Tally
from leeway.core.types import Acceptance


def result(name, law, options, guarantee, ratios, loss):
    tally = Tally()
    tally.add_step(3, 3)
    tally.loss_tv_sum = 3 * loss
    receipt = Receipt(law, options, guarantee, "token", "ngram", 3, 1, 0.8, tally, ())
    arm = Arm(name, Acceptance(law, options))
    return ArmResult(arm, tally, [50.0, 60.0], ratios, [], receipt)


def test_every_arm_is_named_with_its_knob_and_guarantee():
    exact = "exact_distribution"
    results = [
        result("plain", "rejection", {}, exact, [1.0, 1.0], 0.0),
        result("rejection", "rejection", {}, exact, [1.1, 1.3], 0.0),
        result("typical", "typical", {"delta": 0.3, "off_set": "redraw"}, "none", [2.0, 3.0], 0.1),
    ]
    root = ElementTree.fromstring(speed_against_loss(results, "a-model", "ngram"))
    texts = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"plain", "rejection (exact)", "typical 0.3"} <= set(texts)
    assert "Speed against measured loss: a-model, ngram drafts, n = 2 seeds" in texts
    assert "typical: 2.50 times plain decoding at a loss of 0.100" in root.get("aria-label")
