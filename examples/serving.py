"""Export a model and serve it with onnxruntime alone: the answer comes with its gates, and can be checked by hand.

Leaves iris.onnx. `answer` needs neither torch nor punn.
"""

import json
import math

import numpy as np
import onnxruntime
from sklearn.datasets import load_iris
from sklearn.model_selection import train_test_split

from punn import PUNNClassifier
from punn.export import export_onnx

iris = load_iris(as_frame=True)
species = iris.target_names[iris.target]
X_train, X_test, y_train, y_test = train_test_split(iris.data, species, random_state=0, stratify=species)
model = PUNNClassifier("ellipsoid", random_state=0).fit(X_train, y_train)
export_onnx(model, "iris.onnx")

session = onnxruntime.InferenceSession("iris.onnx", providers=["CPUExecutionProvider"])
about = {name: json.loads(text) for name, text in session.get_modelmeta().custom_metadata_map.items()}


def answer(row: dict) -> dict:
    """What a web service would send: label, probabilities and the gates that they are made of."""
    x = np.array([[row[name] for name in about["features"]]], dtype=np.float64)
    label, probabilities, gates, _ = session.run(None, {"x": x})
    return {
        "label": str(label[0]),
        "probabilities": dict(zip(about["classes"], probabilities[0].tolist(), strict=True)),
        "gates": dict(zip(about["order"], gates[0].tolist(), strict=False)),
    }


doubtful = int(model.predict_proba(X_test).max(axis=1).argmin())
request = json.dumps(X_test.iloc[doubtful].to_dict())
reply = answer(json.loads(request))
print(f"request  {request}\nreply    {json.dumps(reply)}\n")

# Whoever reads the reply forms the probability of the rest again: what all gates rejected.
rest = math.prod(1 - q for q in reply["gates"].values())
print(f"p({about['order'][-1]}) from the gates: {rest:.12f}")
print(f"p({about['order'][-1]}) as replied:     {reply['probabilities'][about['order'][-1]]:.12f}")

_, probabilities, _, _ = session.run(None, {"x": X_test.to_numpy()})
difference = np.abs(probabilities - model.predict_proba(X_test)).max()
print(f"the largest difference from Python over {len(X_test)} flowers: {difference:.0e}")
