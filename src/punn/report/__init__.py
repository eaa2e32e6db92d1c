"""One HTML file that shows a model and its answers to a table, and opens offline in any browser.

    html = report_html(model, X, y)
    write_report("report.html", model, X, y)

Everything is computed here and written into the page as plain arrays; the page's script only shows them. `answers`
goes over all rows once, `measures` judges them, `choice` takes the rows that are shown, `explanations` explains
these, `cards` tells what every class is, `maps` holds planes of two features, and `page` puts it all together.
"""

from punn.report.page import report_html, write_report

__all__ = ["report_html", "write_report"]
