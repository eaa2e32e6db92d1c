"""What `import punn` costs, and that imports between its modules point one way."""

import ast
import graphlib
import subprocess
import sys
from pathlib import Path

import punn

ROOT = Path(punn.__file__).parent
#: Everything past the core is an extra, imported where it is used.
EXTRAS = {
    *("pandas", "pyarrow", "matplotlib", "typer", "rich", "plotly", "jinja2", "dash", "flask"),
    *("onnx", "onnxscript", "onnxruntime", "safetensors", "pydantic", "pooch", "platformdirs", "mapie"),
    *("lightning_fabric", "dask"),
}


def modules_after(statement):
    """Top-level names of what a fresh interpreter has imported."""
    code = f"import sys\n{statement}\nprint(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def third_party(names):
    return {name for name in names if name not in sys.stdlib_module_names and not name.startswith("_")}


def test_importing_punn_imports_no_one_else():
    assert third_party(modules_after("import punn") - modules_after("pass")) == {"punn"}


def test_the_core_needs_torch_numpy_and_scikit_learn_alone():
    # Every public name but `load`, which needs the extra `files`.
    names = "PUNN PUNNHead PUNNClassifier GateTrace gates gates_from_probabilities log_partition nll_loss"
    assert {*names.split(), "load"} <= set(punn.__all__)
    with_punn = modules_after(f"import punn\nfor name in {names!r}.split(): getattr(punn, name)")
    assert {"punn", "torch", "numpy", "sklearn"} <= with_punn
    # What torch and scikit-learn bring along themselves is theirs.
    new = with_punn - modules_after("import torch, numpy, sklearn.base, sklearn.preprocessing, sklearn.metrics")
    assert not new & EXTRAS
    assert third_party(new) == {"punn"}


def test_a_fit_does_not_load_torchs_compiler():
    code = "from punn import PUNNClassifier; PUNNClassifier(epochs=1).fit([[0.0], [1.0]] * 5, [0, 1] * 5)"
    assert not modules_after(code) & {"sympy", "mpmath"}


def imports_of(path):
    """The modules of punn that a file imports when it is imported itself, not inside of a function."""
    found = set()
    todo = list(ast.parse(path.read_text()).body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            todo += node.orelse
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write imports in full"
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        else:
            todo += ast.iter_child_nodes(node)
    return {name for name in found if name.split(".")[0] == "punn"}


def module_name(path):
    parts = ("punn", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_imports_have_no_cycle():
    files = {module_name(path): path for path in ROOT.rglob("*.py")}
    graph = {name: {other for other in imports_of(path) if other in files} for name, path in files.items()}
    assert graph["punn.network"] >= {"punn.partition", "punn.activations"}
    assert graph["punn.partition"] == {"punn.kernels"}
    assert not graph["punn.kernels"]
    order = list(graphlib.TopologicalSorter(graph).static_order())  # raises CycleError
    assert order.index("punn.partition") < order.index("punn.network")
