"""Three rings by two balls: the first gate takes the inner ring, so that the second may be a ball without a hole.

Leaves a picture of the classes and their boundaries in rings.png.
"""

from sklearn.model_selection import train_test_split

from punn import PartitionDisplay, PUNNClassifier
from punn.datasets import rings

X, y = rings(seed=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)

for order in ([0, 1, 2], [2, 1, 0]):
    # Several starts are trained side by side and the best is kept.
    model = PUNNClassifier("ball", order=order, epochs=30, restarts=4, random_state=0).fit(X_train, y_train)
    accuracy = model.score(X_test, y_test)
    print(f"order {order}: {accuracy:.1%} of the held-out rows with {model.n_parameters_} numbers")
    if order == [0, 1, 2]:
        print(model.regions())
        PartitionDisplay.from_estimator(model, X_test, y_test).plot().figure_.savefig("rings.png")
print("From the outside in there is no way: a ball around the outer ring holds the other two.")
