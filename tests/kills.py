"""Kill a fit again and again, let it go on, and see whether it ends with the bits of a fit that nobody disturbed.

    python tests/kills.py 50 FOLDER

Every other kill comes at any moment of the fit, the ones between while a checkpoint is being written. The fit runs in
a fork of this process, which has everything imported already.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path


def fit(path=None):
    from sklearn.datasets import load_digits

    from punn import PUNNClassifier

    X, y = load_digits(return_X_y=True)
    settings = {"gates": "shared", "hidden": (192, 192), "epochs": 12, "random_state": 0, "early_stopping": True}
    return PUNNClassifier(**settings, checkpoint=path).fit(X, y)


def in_a_fork(path):
    """Begin the fit, or go on with it; the number of the process."""
    child = os.fork()
    if child == 0:
        try:
            fit(path)
            os._exit(0)
        except BaseException as error:
            print(f"the fit failed: {error!r}", flush=True)
            os._exit(1)
    return child


def wait_for_draft(draft, child):
    """Until a checkpoint is being written, or the fit has ended."""
    while not draft.exists() and os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        pass


def kill(path, moment):
    """One kill, at a moment in seconds or during a write if None: how it ended, and whether a draft was left."""
    child = in_a_fork(path)
    draft = path.with_name(f".{path.name}.tmp")
    if moment is None:
        time.sleep(random.random() * 0.5)
        wait_for_draft(draft, child)
    else:
        time.sleep(moment)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        sys.exit("a fit that went on from a checkpoint failed")
    left = {entry.name for entry in path.parent.iterdir()}
    if not left <= {path.name, draft.name}:
        sys.exit(f"stray files: {left}")
    return os.WIFSIGNALED(status), draft.name in left


def main(kills, folder):
    import torch

    torch.set_num_threads(1)
    random.seed(int(os.environ.get("PUNN_FUZZ_SEED", "0")))
    began = time.perf_counter()
    whole = fit()
    seconds = time.perf_counter() - began
    path = Path(folder) / "fit.checkpoint"
    done = killed = writing = 0
    while killed < kills:
        died, draft = kill(path, None if done % 2 else random.random() * seconds)
        done += 1
        killed += died
        writing += died and draft
    resumed = fit(path)
    ours, theirs = resumed.network_.state_dict(), whole.network_.state_dict()
    same = all(torch.equal(ours[name], theirs[name]) for name in theirs) and resumed.loss_curve_ == whole.loss_curve_
    left = [entry.name for entry in path.parent.iterdir()]
    print(f"{killed} kills, {writing} of them with a half-written file; same bits: {same}; files left: {left}")
    return 0 if same and not left else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2]))
