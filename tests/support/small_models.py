"""Every model, at a size that a test can afford."""

from __future__ import annotations

SMALL: dict[str, dict[str, int]] = {
    "bert-base": {"seq": 16, "layers": 2, "hidden": 64, "heads": 4, "ffn": 128},
    "conformer": {"frames": 64, "layers": 2, "hidden": 64, "heads": 4, "ffn": 128, "kernel": 7},
    "densenet121": {"size": 32, "growth": 8},
    "dlrm": {"tables": 5, "features": 16, "width": 64},
    "mobilenet-v2": {"size": 32},
    "resnet50": {"size": 64},
    "tiny-cnn": {},
    "tiny-transformer": {},
    "vit-b16": {"size": 64, "layers": 2, "hidden": 64, "heads": 4, "ffn": 128},
}
