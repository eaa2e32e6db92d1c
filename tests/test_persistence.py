"""One file per model: what is saved comes back bit for bit, what is not a model is refused in one way."""

import copy
import hashlib
import json
import os
import random
import subprocess
import sys
import time
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load as tensors_in
from safetensors.torch import save as to_bytes
from sklearn.base import clone

import punn
from punn import PUNNClassifier
from punn.gates import (
    Ball,
    ConstantRadius,
    Ellipsoid,
    FourierRadius,
    HarmonicRadius,
    Hybrid,
    SeparateMLP,
    Shared,
    Shell,
)
from punn.gates.mlp import mlp
from punn.persistence import FORMAT, ModelFileError, load, read_description, save
from punn.table import Columns

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.normal(center, 0.7, (20, 2)) for center in ((0, 0), (3, 0), (0, 3))])
NAMES = np.repeat(["left", "middle", "right"], 20)
ROWS = np.concatenate([X, RNG.normal(size=(50, 2)) * 5, RNG.normal(size=(50, 2)) * 1e4])

MODELS = {
    "mlp": {"hidden": (8, 4)},
    "linear": {"hidden": ()},
    "shared": {"gates": "shared", "hidden": [8]},
    "shared, linear": {"gates": "shared", "hidden": ()},
    "ball": {"gates": "ball"},
    "ellipsoid": {"gates": "ellipsoid"},
    "shell": {"gates": "shell"},
    "fourier": {"gates": "fourier", "degree": 3},
    "harmonic": {"gates": "harmonic", "degree": 3},
    "hybrid": {"gates": ["ball", "mlp"], "hidden": (4,), "activation": ["bump", "sigmoid"]},
    "hybrid of shapes": {"gates": ["harmonic", "ellipsoid"], "activation": ["window", "gaussian"]},
    "bumps": {"activation": "bump", "hidden": (4,)},
    "gaussian": {"activation": "gaussian", "hidden": (4,)},
    "compact windows": {"gates": "shell", "activation": "compact_window"},
    "parts": {"gates": ["ball", "mlp", "ball", "mlp"], "parts": {"left": 2, "right": 2}, "hidden": (4,)},
    "unknown": {"gates": "ellipsoid", "rest": "unknown"},
    "unscaled": {"gates": "ball", "standardize": False},
    "ordered": {"gates": "ball", "order": ["right", "left", "middle"], "class_weight": {"left": 2.0}},
    "full ellipsoid": {"gates": lambda features, gates: Ellipsoid(features, gates, full=True)},
    "star": {"gates": lambda features, gates: Shell(None, FourierRadius(2, gates))},
    "mixed radii": {"gates": lambda d, gates: Shell(ConstantRadius(d, gates), HarmonicRadius(d, 2, gates))},
    "uncoupled": {"gates": lambda d, gates: Shared(mlp(d, (4,)), gates, features=4)},
    "a hybrid of one's own": {"gates": lambda d, _: Hybrid([Ball(d, 1), SeparateMLP(d, 1, (3,))], [[1], [0]])},
}


def fitted(precision="double", labels=NAMES, **options):
    settings = {"epochs": 3, "restarts": 1, "random_state": 0, "precision": precision, **options}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the gates of class")  # three epochs are few
        return PUNNClassifier(**settings).fit(X, labels)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A model with all that a file can hold, and its file."""
    model = fitted(gates=["harmonic", "mlp"], hidden=(3,), activation=["bump", "sigmoid"])
    path = tmp_path_factory.mktemp("small") / "model.punn.safetensors"
    save(model, path, table={"columns": [{"name": "a", "fill": 1.5}]}, summary={"rows": 60})
    return model, path


def assert_same(model, again, rows=ROWS):
    for method in ("predict", "predict_proba", "predict_log_proba"):
        one, other = getattr(model, method)(rows), getattr(again, method)(rows)
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()


class TestRoundTrip:
    @pytest.mark.parametrize("precision", ["single", "double"])
    @pytest.mark.parametrize("name", MODELS)
    def test_predictions_bit_for_bit(self, name, precision, tmp_path):
        model = fitted(precision, **MODELS[name])
        model.save(tmp_path / "model")
        again = punn.load(tmp_path / "model")
        assert_same(model, again)
        assert str(again.network_) == str(model.network_)
        assert next(again.network_.parameters()).dtype == next(model.network_.parameters()).dtype
        np.testing.assert_array_equal(again.trace(ROWS).gates, model.trace(ROWS).gates)
        assert str(again.regions()) == str(model.regions())
        assert again.ranges_.tobytes() == model.ranges_.tobytes()
        again.save(tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()

    def test_a_file_of_before_ranges_were_kept(self, small, tmp_path):
        _, description, tensors = parts_of(small[1].read_bytes())
        del description["ranged"], tensors["ranges"]
        (tmp_path / "old").write_bytes(signed(json.dumps(description), tensors))
        old = punn.load(tmp_path / "old")
        assert old.ranges_ is None
        assert_same(small[0], old)
        old.save(tmp_path / "again")
        assert punn.load(tmp_path / "again").ranges_ is None

    def test_a_function_for_verbose_is_not_kept(self, tmp_path):
        fitted(gates="ball", verbose=lambda step: None).save(tmp_path / "model")
        assert punn.load(tmp_path / "model").verbose is False

    def test_another_process(self, tmp_path):
        np.save(tmp_path / "rows.npy", ROWS)
        models = {name: fitted("single", **options) for name, options in MODELS.items()}
        for number, model in enumerate(models.values()):
            model.save(tmp_path / str(number))
        code = (
            "import sys, numpy, punn, torch; torch.set_num_threads(int(sys.argv[2]))\n"
            "rows = numpy.load('rows.npy')\n"
            "for i in range(int(sys.argv[1])): numpy.save(f'{i}.npy', punn.load(str(i)).predict_proba(rows))"
        )
        arguments = [str(len(models)), str(torch.get_num_threads())]
        subprocess.run([sys.executable, "-c", code, *arguments], cwd=tmp_path, check=True, timeout=120)
        for number, model in enumerate(models.values()):
            assert np.load(tmp_path / f"{number}.npy").tobytes() == model.predict_proba(ROWS).tobytes()

    @pytest.mark.parametrize(
        "labels",
        [
            NAMES.astype(object),
            np.repeat([5, -3, 7], 20),
            np.repeat([5, 3, 7], 20).astype(np.uint8),
            np.repeat([True, False, True], 20),
            np.repeat([1.0, 2.0, 3.0], 20).astype(np.float32),
            np.repeat(["é", "日本", "a b\n"], 20),
            np.repeat(["one"], 60),
        ],
        ids=lambda labels: str(labels.dtype),
    )
    def test_labels(self, labels, tmp_path):
        model = fitted(gates="ball", labels=labels)
        model.save(tmp_path / "model")
        again = load(tmp_path / "model")
        assert again.classes_.dtype == model.classes_.dtype
        assert again.classes_.tolist() == model.classes_.tolist()
        assert again.order_.tolist() == model.order_.tolist()
        np.testing.assert_array_equal(again.predict(ROWS), model.predict(ROWS))

    def test_the_estimator_is_usable(self, tmp_path):
        frame = pd.DataFrame(X, columns=["width", "height"])
        model = PUNNClassifier(hidden=(4,), epochs=3, parts={"left": 2}, random_state=0).fit(frame, NAMES)
        model.save(tmp_path / "model")
        again = load(tmp_path / "model")
        assert again.get_params() == model.get_params()
        assert again.feature_names_in_.tolist() == ["width", "height"]
        assert again.n_features_in_ == 2
        assert again.n_iter_ == model.n_iter_ == 3
        assert again.loss_curve_ == model.loss_curve_
        assert again.history_ == model.history_
        assert again.n_parameters_ == model.n_parameters_
        assert_same(model, again, frame)
        assert_same(clone(again).fit(frame, NAMES), model, frame)
        for one in (model, again):
            one.partial_fit(frame, NAMES)
        assert_same(model, again, frame)
        for one in (model, again):
            one.set_params(warm_start=True).fit(frame, NAMES)
        assert_same(model, again, frame)

    def test_after_partial_fit_alone(self, tmp_path):
        model = PUNNClassifier(gates="ball", random_state=0).partial_fit(X, NAMES, classes=np.unique(NAMES))
        model.save(tmp_path / "model")
        again = load(tmp_path / "model")
        assert_same(model, again)
        assert_same(model.partial_fit(X, NAMES), again.partial_fit(X, NAMES))

    @pytest.mark.parametrize("name", ["full ellipsoid", "a hybrid of one's own"])
    def test_a_function_for_gates_comes_back_as_one(self, name, tmp_path):
        model = fitted(**MODELS[name])
        model.save(tmp_path / "model")
        refitted = clone(load(tmp_path / "model")).fit(X, NAMES)
        shapes = [sorted(str(p.shape) for p in one.network_.parameters()) for one in (refitted, model)]
        assert shapes[0] == shapes[1]

    def test_table_and_summary(self, small, tmp_path):
        again = load(small[1])
        assert again.table_ == {"columns": [{"name": "a", "fill": 1.5}]}
        assert again.summary_ == {"rows": 60}
        again.save(tmp_path / "again")
        assert load(tmp_path / "again").table_ == again.table_
        fitted(gates="ball").save(tmp_path / "plain")
        assert load(tmp_path / "plain").table_ is None

    def test_what_belongs_to_a_machine_is_left_out(self, tmp_path):
        model = fitted(gates="ball", random_state=np.random.RandomState(0), checkpoint=tmp_path / "checkpoint")
        model.save(tmp_path / "model")
        again = load(tmp_path / "model")
        assert again.checkpoint is None
        assert again.random_state is None
        assert str(tmp_path).encode() not in (tmp_path / "model").read_bytes()

    def test_torch_is_left_as_it_was(self, small):
        before = torch.random.get_rng_state()
        load(small[1])
        assert torch.equal(before, torch.random.get_rng_state())

    def test_the_file_may_change_while_the_model_lives(self, small, tmp_path):
        path = tmp_path / "model"
        path.write_bytes(small[1].read_bytes())
        again = load(path)
        with path.open("r+b") as file:
            file.write(bytes(path.stat().st_size))
        assert_same(small[0], again)

    def test_description(self, small):
        description = read_description(small[1])
        assert description.format == FORMAT
        assert description.classes == ["left", "middle", "right"]
        assert set(description.versions) == {"punn", "python", "torch", "numpy", "scikit-learn"}


class TestSaveRefuses:
    def test_modules_of_ones_own(self, tmp_path):
        own = [
            lambda features, gates: torch.nn.Linear(features, gates),
            lambda features, gates: Shared(torch.nn.Linear(features, gates), gates),
            lambda features, gates: Shared(torch.nn.Sequential(torch.nn.Linear(features, 4)), gates, features=4),
            lambda d, gates: Shared(torch.nn.Sequential(torch.nn.Linear(d, 4, False), torch.nn.ReLU()), gates, 4),
        ]
        for gates in own:
            with pytest.raises(TypeError, match="state_dict"):
                fitted(gates=gates).save(tmp_path / "model")
        assert not list(tmp_path.iterdir())

    def test_activations_of_ones_own(self, tmp_path):
        def step(theta):
            return punn.activations.sigmoid(3 * theta)

        with pytest.raises(TypeError, match=r"activation step.*state_dict"):
            fitted(hidden=(2,), activation=step).save(tmp_path / "model")

    def test_numbers_that_are_not_finite(self, tmp_path):
        model = fitted(gates="ball")
        model.network_.gates.center.data[0, 0] = torch.nan
        with pytest.raises(ValueError, match=r"'gates.center' holds numbers that are not finite"):
            model.save(tmp_path / "model")

    def test_what_is_not_fitted_and_folders_that_are_not_there(self, tmp_path):
        with pytest.raises(ValueError, match="not fitted"):
            PUNNClassifier().save(tmp_path / "model")
        with pytest.raises(FileNotFoundError, match="folder"):
            fitted(gates="ball").save(tmp_path / "nowhere" / "model")

    def test_a_fault_leaves_the_old_file(self, small, tmp_path, monkeypatch):
        path = tmp_path / "model"
        path.write_bytes(b"old")
        monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
        with pytest.raises(OSError, match="disk full"):
            small[0].save(path)
        assert path.read_bytes() == b"old"
        assert list(tmp_path.iterdir()) == [path]


def parts_of(content):
    """Metadata, description and tensors of a file."""
    length = int.from_bytes(content[:8], "little")
    metadata = json.loads(content[8 : 8 + length])["__metadata__"]
    tensors = tensors_in(content)
    del tensors["sha256"]
    return metadata, json.loads(metadata["punn"]), tensors


def signed(text, tensors):
    """A file whose digest is right, whatever it says."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        digest.update(name.encode() + tensors[name].contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    tensors = {**tensors, "sha256": torch.tensor(list(digest.digest()), dtype=torch.uint8)}
    return to_bytes(tensors, {"punn": text})


def changed(small, **changes):
    _, description, tensors = parts_of(small[1].read_bytes())
    return signed(json.dumps({**description, **changes}), tensors)


class TestLoadRefuses:
    def refuse(self, tmp_path, content, match):
        path = tmp_path / "hostile.safetensors"
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match=match) as caught:
            load(path)
        assert str(path) in str(caught.value)
        assert str(caught.value).isprintable()

    def test_the_helpers_sign_right(self, small, tmp_path):
        (tmp_path / "model").write_bytes(changed(small))
        assert_same(load(tmp_path / "model"), small[0])

    def test_no_file_and_no_regular_file(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="no model file"):
            load(tmp_path / "nothing")
        for path in (tmp_path, "/dev/zero"):
            with pytest.raises(ModelFileError, match="no regular file"):
                load(path)

    def test_foreign_files(self, tmp_path):
        for content in (b"", b"short", b"PK\x03\x04 a zip, perhaps a pickle of torch", b"a,b\n1,2\n" * 100):
            self.refuse(tmp_path, content, "cut off, or no safetensors file")
        self.refuse(tmp_path, to_bytes({"x": torch.zeros(1)}), "something else")
        self.refuse(tmp_path, to_bytes({"x": torch.zeros(1)}, {"punn_checkpoint": "{}"}), "checkpoint")
        self.refuse(tmp_path, to_bytes({"x": torch.zeros(1)}, {"punn": "no json"}), "Invalid JSON")

    def test_truncated(self, small, tmp_path):
        content = small[1].read_bytes()
        for length in range(0, len(content), 97):
            self.refuse(tmp_path, content[:length], "is not a model that can be read")

    def test_a_changed_weight(self, small, tmp_path):
        content = small[1].read_bytes()
        self.refuse(tmp_path, content[:-1] + bytes([content[-1] ^ 1]), "digest")

    def test_huge_headers(self, small, tmp_path):
        content = small[1].read_bytes()
        self.refuse(tmp_path, (2**63).to_bytes(8, "little") + content[8:], "cut off")
        header = b"{" + b" " * 10_000_001 + b"}"
        self.refuse(tmp_path, len(header).to_bytes(8, "little") + header, "larger than 10000000")

    def test_newer_versions(self, small, tmp_path):
        match = r"written by a newer punn \(format 3, this one reads up to 1\): upgrade"
        self.refuse(tmp_path, changed(small, format=3, more={}), match)
        for version in (0, -1, "1", None, 1.5):
            self.refuse(tmp_path, changed(small, format=version), "format")

    def test_deep_json(self, small, tmp_path):
        _, description, tensors = parts_of(small[1].read_bytes())
        for depth in (300, 100_000):
            deep = '{"a":' * depth + "1" + "}" * depth
            text = json.dumps({**description, "table": 0}).replace('"table": 0', f'"table": {deep}')
            self.refuse(tmp_path, signed(text, tensors), "description is wrong")

    def test_names_from_elsewhere(self, small, tmp_path):
        for name in ("os.system", "torch.nn.Linear", "__import__", "../ball"):
            families = [{"gates": {"family": name, "features": 2, "gates": 2}, "positions": [0, 1]}]
            self.refuse(tmp_path, changed(small, families=families), "families.0.gates")
            self.refuse(tmp_path, changed(small, activation=name), "activation")
            self.refuse(tmp_path, changed(small, labels=name), "labels")
            self.refuse(tmp_path, changed(small, params={"gates": name}), "unknown gates")
            self.refuse(tmp_path, changed(small, params={name: 1}), "option that is not known")
            self.refuse(tmp_path, changed(small, **{name: 1}), "Extra inputs")
        self.refuse(tmp_path, changed(small, params={"checkpoint": "/etc/passwd"}), "'checkpoint'")
        self.refuse(tmp_path, changed(small, params={"\x1b[31mred": 1}), "option that is not known")

    @pytest.mark.parametrize(
        "family",
        [
            {"family": "mlp", "hidden": [10**7, 10**7]},
            {"family": "mlp", "hidden": [10**30]},
            {"family": "mlp", "hidden": [4] * 101},
            {"family": "shared", "hidden": [10**7] * 100, "coupled": True},
            {"family": "ball", "features": 10**7},
            {"family": "ball", "features": -1},
            {"family": "ball", "gates": 10**7},
            {"family": "ellipsoid", "features": 10**7, "full": True},
            {"family": "shell", "inner": None, "outer": {"kind": "harmonic", "degree": 1000}},
            {"family": "shell", "inner": None, "outer": {"kind": "harmonic", "degree": 10**9}},
            {"family": "shell", "inner": None, "outer": {"kind": "fourier", "degree": 1000}},
            {"family": "shell", "features": 999, "inner": None, "outer": {"kind": "harmonic", "degree": 1}},
        ],
        ids=str,
    )
    def test_sizes_that_the_file_does_not_hold(self, small, tmp_path, family):
        gates = {"features": 2, "gates": 2, **family}
        families = [{"gates": gates, "positions": [0, 1]}]
        self.refuse(tmp_path, changed(small, families=families), "is not a model")
        self.refuse(tmp_path, changed(small, families=families, features=999), "is not a model")

    @pytest.mark.parametrize(
        ("changes", "match"),
        [
            ({"classes": ["middle", "left", "right"]}, "sorted"),
            ({"classes": ["left", "left", "right"]}, "sorted"),
            ({"classes": [1, 2, 3]}, "type str"),
            ({"classes": ["left", "right"]}, "2 classes"),
            ({"classes": [1, 2, 300], "labels": "uint8"}, "fit into uint8"),
            ({"classes": [0.1, 0.2, 0.3], "labels": "float32"}, "fit into float32"),
            ({"order": ["right", "middle", "left"]}, "order"),
            ({"class_of": [0, 1, 10**6]}, "classes"),
            ({"class_of": [0, 2, 2]}, "order"),
            ({"class_of": [0, 1, 2, 0]}, "gates and class_of"),
            ({"dtype": "float32"}, "should be"),
            ({"dtype": "float16"}, "dtype"),
            ({"scaled": False}, "'scaling.mean' should be none"),
            ({"covered": False}, "'coverage.mass' should be none"),
            ({"ranged": False}, "'ranges' should be none"),
            ({"features": 3}, "same features"),
            ({"feature_names": ["a"]}, "every feature must have a name"),
            ({"params": {"rest": "unknown"}}, "rest='unknown' needs"),
            ({"params": {"hidden": 3}}, "not iterable"),
            ({"params": {"epochs": -1}}, "epochs"),
            ({"params": {"gates": ["ball"]}}, "one per gate"),
        ],
    )
    def test_descriptions_that_cannot_be(self, small, tmp_path, changes, match):
        self.refuse(tmp_path, changed(small, **changes), match)

    def test_tensors_that_cannot_be(self, small, tmp_path):
        metadata, _, tensors = parts_of(small[1].read_bytes())
        name, mean = "gates.families.0.center", "scaling.scale"
        for value, match in [
            ({name: tensors[name] * torch.nan}, "not finite"),
            ({name: tensors[name] / 0}, "not finite"),
            ({mean: -tensors[mean]}, "positive"),
            ({name: tensors[name].float()}, "F32"),
            ({name: tensors[name].flatten()}, "should be"),
            ({name: torch.zeros(0)}, "should be"),
            ({"coverage.rows": tensors["coverage.rows"] - 10**6}, "fewer than none"),
            ({"ranges": tensors["ranges"].flip(1)}, "this order"),
            ({"more": torch.zeros(1)}, "'more' should be none"),
        ]:
            self.refuse(tmp_path, signed(metadata["punn"], {**tensors, **value}), match)
        del tensors[name]
        self.refuse(tmp_path, signed(metadata["punn"], tensors), "and is none")


JUNK = [
    None, True, 0, -1, 1, 2, 3, 10**7, 10**30, -(2**63), 0.5, float("nan"), float("inf"), "", "mlp", "ball", "bump",
    "os.system", "\x1b[2J", "x" * 5000, [], {}, [0], [[]], [0, 1], [None], {"a": 1}, {"pairs": [[1, 2]]}, [[0, 1]] * 50,
]  # fmt: skip


class Mutations:
    """Random changes of a valid file: of its bytes, of its header, of what it says, of its tensors."""

    def __init__(self, content, seed):
        self.content, self.chance = content, random.Random(seed)
        self.metadata, self.description, self.tensors = parts_of(content)

    def __call__(self):
        kind = self.chance.choice([self.flip, self.cut, self.insert, self.header, self.say, self.say, self.numbers])
        return kind()

    def flip(self):
        data = bytearray(self.content)
        for _ in range(self.chance.choice([1, 1, 2, 8, 64])):
            # The length and the header are a small part of a file, and the one that matters.
            end = self.chance.choice([8, 64, len(data)])
            data[self.chance.randrange(end)] = self.chance.randrange(256)
        return bytes(data)

    def cut(self):
        first, last = sorted(self.chance.choices(range(len(self.content)), k=2))
        return self.chance.choice(
            [self.content[:first], self.content[first:], self.content[:first] + self.content[last:]]
        )

    def insert(self):
        place = self.chance.randrange(len(self.content))
        more = self.chance.choice([self.chance.randbytes(self.chance.randrange(1, 99)), self.content[place:]])
        return self.content[:place] + more + self.content[place:]

    def header(self):
        length = int.from_bytes(self.content[:8], "little")
        header = json.loads(self.content[8 : 8 + length])
        self.spoil(header)
        text = json.dumps(header).encode()
        return len(text).to_bytes(8, "little") + text + self.content[8 + length :]

    def say(self):
        description = json.loads(json.dumps(self.description))
        for _ in range(self.chance.choice([1, 1, 1, 2, 4])):
            self.spoil(description)
        return signed(json.dumps(description), self.tensors)

    def numbers(self):
        tensors = dict(self.tensors)
        name = self.chance.choice(list(tensors))
        value = tensors.pop(name).clone()
        size = torch.Size([self.chance.randrange(4) for _ in range(self.chance.randrange(3))])
        number = self.chance.choice([0.0, -1e300, 1e300, 1e-300, float("nan"), float("inf")])
        other = [
            torch.full_like(value.double(), number),
            value.float(),
            torch.cat([value, value]),
            torch.zeros(size),
            value.flatten(),
        ]
        if self.chance.random() < 0.8:
            tensors[name] = self.chance.choice(other).contiguous()
        return signed(self.metadata["punn"], tensors)

    def junk(self):
        return copy.deepcopy(self.chance.choice(JUNK))

    def spoil(self, tree):
        """Change one thing, anywhere in a tree of JSON."""
        while True:
            place = self.chance.choice(list(tree) if isinstance(tree, dict) else range(len(tree)))
            if isinstance(tree[place], dict | list) and tree[place] and self.chance.random() < 0.8:
                tree = tree[place]
                continue
            change = self.chance.random()
            if change < 0.2:
                del tree[place]
            elif change < 0.3 and isinstance(tree, dict):
                tree[self.chance.choice(["gates", "more", "__class__"])] = self.junk()
            else:
                tree[place] = self.junk()
            return


FORBIDDEN = ("os.system", "subprocess.Popen", "os.exec", "exec", "pickle.find_class", "socket.connect", "os.remove")
heard = []
listening = False


def listen(event, arguments):
    writing = event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+")
    if listening and (event in FORBIDDEN or writing):
        heard.append((event, arguments))


def test_mutations_are_refused_or_predict(small, tmp_path):
    """PUNN_FUZZ=10000 is the full run; an audit hook hears whatever would be run or written."""
    global listening
    sys.addaudithook(listen)
    mutate = Mutations(small[1].read_bytes(), seed=int(os.environ.get("PUNN_FUZZ_SEED", "0")))
    path = tmp_path / "mutated"
    accepted, slowest = 0, 0.0
    for number in range(int(os.environ.get("PUNN_FUZZ", "300"))):
        path.write_bytes(mutate())
        listening, began = True, time.perf_counter()
        try:
            model = load(path)
            assert model.predict(ROWS).shape == (len(ROWS),)
            assert model.predict_proba(ROWS).shape == (len(ROWS), len(model.classes_))
            accepted += 1
        except ModelFileError:
            pass
        except BaseException:
            (tmp_path / f"failed-{number}").write_bytes(path.read_bytes())
            raise
        finally:
            listening, slowest = False, max(slowest, time.perf_counter() - began)
    print(f"{accepted} loaded, the slowest took {slowest:.3f} s")
    assert not heard


def test_a_loaded_model_takes_the_table_it_was_trained_on(tmp_path):
    """Raw columns, words and gaps included, go straight into prediction and explanation."""
    rng = np.random.RandomState(0)
    frame = pd.DataFrame({"length": rng.randn(80), "island": rng.choice(["Biscoe", "Dream"], 80)})
    frame.loc[3, "length"] = np.nan
    labels = np.where((frame["island"] == "Dream") ^ (frame["length"] > 0), "yes", "no")
    columns = Columns.fit(frame)
    numbers = pd.DataFrame(columns.transform(frame), columns=list(columns.feature_names))
    model = PUNNClassifier(epochs=20, random_state=0).fit(numbers, labels)
    save(model, tmp_path / "m.punn.safetensors", table=columns.to_dict())
    loaded = load(tmp_path / "m.punn.safetensors")
    np.testing.assert_array_equal(loaded.predict_proba(frame), model.predict_proba(numbers))
    np.testing.assert_array_equal(loaded.trace(frame).gates, model.trace(numbers).gates)
    assert loaded.counterfactual(frame.iloc[[0]]) is not None
    assert loaded.fit(numbers, labels).table_ is None  # a new fit has columns of its own
