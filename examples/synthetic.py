"""Three activations on two interleaved spirals, without the command: `punn reproduce synthetic` does all of them.

Prints test accuracies and leaves a picture of the partition functions in helix.png.
"""

from sklearn.model_selection import train_test_split

from punn import PartitionDisplay, PUNNClassifier
from punn.datasets import helix

X, y = helix(seed=42)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=42, stratify=y)

for activation in ("sigmoid", "gaussian", "bump"):
    model = PUNNClassifier(
        "mlp",
        activation,
        hidden=(128, 128) if activation == "bump" else (32, 32),
        epochs=200,
        batch_size=32,
        learning_rate=0.01,
        # Spirals are learned late, after a long time in which nothing seems to happen: no decay, no early end.
        weight_decay=0.0,
        early_stopping=False,
        random_state=42,
    )
    model.fit(X_train, y_train)
    accuracy = model.score(X_test, y_test)
    print(f"{activation:<9} {accuracy:.1%} of the test rows with {model.n_parameters_:,} parameters")
    if activation == "sigmoid":
        PartitionDisplay.from_estimator(model, X_test, y_test).plot_functions().figure_.savefig("helix.png")
