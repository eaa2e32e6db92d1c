"""The explorer: a local page where a model answers while one touches it.

`subject` is what is explored, a model with the rows and ranges that belong to it; `sessions` keeps one for every tab,
and `job` trains a new one beside the page. `panels` and `figures` turn traces, ledgers and counterfactuals into
components; `layout` is the page with its two views, `exploring` and `learning` are their callbacks, and `app` puts all
of it together behind `guard`. The scripts and the style that run in the browser are in `assets`.
"""

from punn.explore.app import build_app
from punn.explore.server import serve
from punn.explore.subject import Subject, subject_of

__all__ = ["Subject", "build_app", "serve", "subject_of"]
