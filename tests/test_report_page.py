"""The report in a real browser: every element is used, nothing complains, no request leaves the machine."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

import punn
from browser import quiet_page
from punn.report import write_report
from punn.sources import Source, learnable, read_source

EVIL = "<img src=x onerror=alert(1)><b>bold</b> %{x} &lt;"

# Marks the tenth point of a class on the map, and gives the number of its row.
TENTH_POINT = """() => {
    const map = document.querySelector("#map");
    const scatters = map.data.filter((trace) => trace.type === "scatter");
    const place = scatters.findIndex((trace) => trace.customdata && trace.customdata.length > 9);
    map.querySelectorAll(".scatterlayer .trace")[place].querySelectorAll(".point")[9].id = "target";
    return data.rows[scatters[place].customdata[9]].row;
}"""
# Remembers how the page looks when it is printed.
TELL_PRINT = """() => window.addEventListener("beforeprint", () => {
    const closed = document.querySelectorAll("details:not([open])").length;
    window.printed = [document.documentElement.dataset.theme, drawn.size, closed];
})"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def iris(folder):
    """The address of a page about ellipsoids, with the model, rows and labels."""
    X, y = load_iris(return_X_y=True, as_frame=True)
    labels = load_iris().target_names[y]
    model = punn.PUNNClassifier("ellipsoid", restarts=1, epochs=40, random_state=0).fit(X, labels)
    write_report(model, folder / "iris.html", X, labels, source="iris")
    return (folder / "iris.html").as_uri(), model, X, labels


def drawn(page, name):
    """Scroll to a figure; it is drawn when it comes near the screen."""
    page.locator(f"#{name}").scroll_into_view_if_needed()
    page.locator(f"#{name} .main-svg").first.wait_for()


def test_figures_are_drawn_and_the_page_opens_quickly(page, iris):
    page.goto(iris[0])
    assert page.locator("h1").inner_text().startswith("Right in ")
    for name in ("calibration", "loss", "confusion", "blame", "travel", "map"):
        drawn(page, name)
    assert page.locator("#confusion .heatmaplayer image").count() == 1
    assert page.locator("#travel .bars path").count() == 3
    assert page.locator("#calibration .errorbars path").count() >= 1
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_sections_are_reached_through_the_bar_and_cards_open_by_keyboard(page, iris):
    page.goto(iris[0])
    for name in ("Model", "Mistakes", "Chain", "Classes", "Rows and maps"):
        page.get_by_role("link", name=name, exact=True).click()
    assert page.url.endswith("#rows")
    summary = page.locator("details.card summary").nth(1)
    assert "of them rightly" in summary.inner_text()
    opened = page.locator("details.card").nth(1)
    assert opened.get_attribute("open") is not None
    summary.focus()
    page.keyboard.press("Enter")
    assert opened.get_attribute("open") is None
    page.keyboard.press("Space")
    assert "covers" in opened.inner_text()
    assert opened.locator("table").count() == 2


def test_a_row_is_found_by_search_and_explained(page, iris):
    address, model, X, _ = iris
    page.goto(address)
    page.locator("#search").fill("row 77")
    assert page.locator("#count").inner_text() == "1 row"
    page.keyboard.press("Enter")
    trace, label = model.trace(X), model.predict(X)[77]
    assert page.locator("#row-title").inner_text() == "Row 77"
    assert f"Predicted {label} with" in page.locator("#row-answer").inner_text()
    lines = page.locator("#trace tbody tr")
    assert lines.count() == 3
    assert lines.first.locator("td").last.inner_text() == f"{trace.partition[77, 0]:.3f}"
    for i, c in enumerate(np.argsort(-trace.probabilities[77])):
        page.locator("#row-class").select_option(index=i)
        sentence = str(trace.why_not(77, model.classes_[c]))
        assert page.locator("#why").inner_text().lower() == f"{sentence}.".lower()
        ledger = trace.ledger(77, model.classes_[c])
        assert page.locator("#ledger tbody tr").count() == len(ledger)
        assert page.locator("#ledger tfoot td").last.inner_text().replace("−", "-") == f"{ledger.total:.3f}"
    values = page.locator("#values dd").all_inner_texts()
    assert [float(value) for value in values] == X.iloc[77].tolist()


def test_the_list_is_walked_and_sorted_with_the_keyboard(page, iris):
    page.goto(iris[0])
    page.locator("#search").fill("setosa")
    page.keyboard.press("ArrowDown")
    assert page.locator("#row-title").inner_text() == "Row 0"
    for key, row in (("ArrowDown", 1), ("End", 49), ("ArrowUp", 48), ("Home", 0), ("PageDown", 8)):
        page.keyboard.press(key)
        assert page.locator("#row-title").inner_text() == f"Row {row}"
        focused = page.evaluate("document.activeElement.dataset.row")
        assert focused == str(row)
    page.get_by_role("button", name="Next row").click()
    assert page.locator("#row-title").inner_text() == "Row 9"
    page.get_by_role("button", name="Previous row").press("Enter")
    assert page.locator("#row-title").inner_text() == "Row 8"
    page.locator("#list thead").get_by_role("button", name="p", exact=True).click()
    ascending = [float(p) for p in page.locator("#list tbody td:nth-child(3)").all_inner_texts()]
    assert ascending == sorted(ascending)
    page.locator("#list thead").get_by_role("button", name="p", exact=True).press("Enter")
    assert page.locator("#list thead th").nth(2).get_attribute("aria-sort") == "descending"
    page.locator("#search").fill("no such thing")
    assert page.locator("#count").inner_text() == "0 rows"
    page.keyboard.press("Enter")
    page.locator("#list tbody tr").first.wait_for(state="detached")


def test_a_card_leads_to_its_row(page, iris):
    page.goto(iris[0])
    pick = page.locator(".pick").nth(5)
    row = pick.get_attribute("data-row")
    pick.click()
    assert page.locator("#row-title").inner_text() == f"Row {row}"
    assert page.evaluate("document.activeElement.dataset.row") == row


def test_the_map_shows_any_two_features_and_its_points_are_rows(page, iris):
    address, _, X, _ = iris
    page.goto(address)
    drawn(page, "map")
    features = page.locator("#map-x option").all_inner_texts()
    assert sorted(features) == sorted(X.columns)
    title = "() => document.querySelector('#map').layout.xaxis.title.text"
    for i, name in enumerate(features):
        page.locator("#map-x").select_option(index=i)
        assert page.evaluate(title) == name
        assert page.locator("#map-x").input_value() != page.locator("#map-y").input_value()
    for i in range(4):
        page.locator("#map-show").select_option(index=i)
        assert page.locator("#map .heatmaplayer image").count() == (0 if i == 0 else 1)
    page.locator("#map-show").focus()
    page.keyboard.press("Home")
    page.locator("#map .layer-below image, #map .imagelayer image").first.wait_for()
    before = page.locator("#row-title").inner_text()
    number = page.evaluate(TENTH_POINT)
    box = page.locator("#target").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_function("(before) => document.querySelector('#row-title').textContent !== before", arg=before)
    shown = int(page.locator("#row-title").inner_text().split()[1])
    pair = [features[int(page.locator(f"#map-{axis}").input_value())] for axis in "xy"]
    assert X.loc[shown, pair].tolist() == pytest.approx(X.loc[number, pair].tolist(), abs=0.15)


def test_light_and_dark(browser, iris):
    for scheme, first, second in (("light", "Dark", "Light"), ("dark", "Light", "Dark")):
        with quiet_page(browser, color_scheme=scheme) as page:
            page.goto(iris[0])
            drawn(page, "confusion")
            paper = "() => getComputedStyle(document.body).backgroundColor"
            ink = "() => document.querySelector('#confusion').layout.font.color"
            before = page.evaluate(paper), page.evaluate(ink)
            assert page.locator("#theme").inner_text() == first
            page.locator("#theme").press("Enter")
            assert page.locator("#theme").inner_text() == second
            assert page.evaluate(paper) != before[0]
            assert page.evaluate(ink) != before[1]


def test_it_prints_light_with_everything_drawn(browser, iris, folder):
    with quiet_page(browser, color_scheme="dark") as page:
        page.goto(iris[0])
        page.evaluate(TELL_PRINT)
        page.pdf(path=folder / "page.pdf")
        assert page.evaluate("window.printed") == ["light", 6, 0]
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        assert (folder / "page.pdf").stat().st_size > 50_000


def test_a_phone_needs_no_sideways_scrolling(browser, iris):
    with quiet_page(browser, viewport={"width": 390, "height": 844}, has_touch=True) as page:
        page.goto(iris[0])
        for name in ("calibration", "confusion", "travel", "map"):
            drawn(page, name)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.locator("#list tbody tr").nth(3).tap()
        assert page.locator("#row-title").inner_text() == "Row 3"


def test_images_stand_beside_their_traces(page, folder):
    source = read_source("digits")
    examples = learnable(source, "class")
    model = punn.PUNNClassifier("shared", hidden=(16,), epochs=3, random_state=0).fit(examples.X, examples.y)
    model.table_ = examples.columns.to_dict()
    write_report(model, folder / "digits.html", source.frame, source.frame["class"], source="digits")
    page.goto((folder / "digits.html").as_uri())
    button = page.locator("#gallery button").nth(7)
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    assert page.locator("#row-title").inner_text() == f"Row {button.get_attribute('data-row')}"
    pixels = page.evaluate("""() => [...document.querySelector('#row-image').getContext('2d')
        .getImageData(0, 0, 8, 8).data].filter((_, i) => i % 4 === 0)""")
    raw = source.frame.drop(columns="class").to_numpy()[int(button.get_attribute("data-row"))]
    np.testing.assert_allclose(pixels, raw * 255 / 16, atol=1)
    assert page.locator("#map").count() == 0
    assert page.locator("details.card canvas").count() == len(set(model.predict(examples.X)))
    page.locator("#search").fill("wrong")
    shown = int(page.locator("#count").inner_text().split()[0])
    assert page.locator("#gallery button").count() == min(shown, 90) > 0
    page.set_viewport_size({"width": 390, "height": 844})
    page.locator("#gallery button").last.click()
    page.wait_for_function("document.querySelector('#row-title').getBoundingClientRect().top < 300")


def test_names_with_html_are_shown_as_text(page, folder):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({EVIL: rng.normal(size=60), "other": rng.normal(size=60), "word": rng.choice([EVIL, "b"], 60)})
    frame["kind"] = np.where(frame[EVIL] > 0, EVIL, "plain")
    examples = learnable(Source(frame, "evil"), "kind")
    model = punn.PUNNClassifier(hidden=(4,), epochs=20, random_state=0).fit(examples.X, examples.y)
    model.table_ = examples.columns.to_dict()
    write_report(model, folder / "evil.html", frame, frame["kind"], source=EVIL)
    page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    page.goto((folder / "evil.html").as_uri())
    for name in ("confusion", "blame", "travel", "map"):
        drawn(page, name)
    assert page.locator("img").count() == 0
    assert EVIL in page.locator(".eyebrow").inner_text()
    assert EVIL in page.locator("details.card summary").first.inner_text()
    assert f"{EVIL[:17]}…" in page.locator("#confusion .ytick text").all_text_contents()
    names = page.locator("#map-x option").all_text_contents()
    page.locator("#map-x").select_option(index=next(i for i, name in enumerate(names) if name.startswith(EVIL[:20])))
    assert EVIL[:20] in page.locator("#map .xtitle").text_content()
    page.locator("#search").fill("wrong")
    page.locator("#search").fill("")
    page.locator("#list tbody tr").first.click()
    assert EVIL in page.locator("#values").inner_text()


def test_a_page_without_labels_has_no_scores(page, folder, iris):
    _, model, X, _ = iris
    write_report(model, folder / "new.html", X[::10], source="new flowers")
    page.goto((folder / "new.html").as_uri())
    assert "new flowers" in page.locator("h1").inner_text()
    assert page.locator("#mistakes").count() == page.locator("#calibration").count() == 0
    drawn(page, "travel")
    drawn(page, "map")
    page.locator("#list tbody tr").last.click()
    assert page.locator("#row-title").inner_text() == "Row 14"
    assert "label" not in page.locator("#list thead").inner_text()
