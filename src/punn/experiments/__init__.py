"""The paper's experiments, one file per study, each by one call or one command.

>>> sorted(STUDIES)
['cifar100', 'density', 'mnist', 'shapes', 'synthetic']
"""

from punn.experiments.cifar100 import STUDY as CIFAR100
from punn.experiments.density import STUDY as DENSITY
from punn.experiments.mnist import BEST as MNIST_BEST
from punn.experiments.mnist import STUDY as MNIST
from punn.experiments.shapes import STUDY as SHAPES
from punn.experiments.study import Run, Study, Task, reproduce
from punn.experiments.synthetic import STUDY as SYNTHETIC

__all__ = ["MNIST_BEST", "STUDIES", "Run", "Study", "Task", "reproduce"]

#: Every study by its name.
STUDIES: dict[str, Study] = {study.name: study for study in (SYNTHETIC, DENSITY, MNIST, CIFAR100, SHAPES)}
