"""The explorer as people use it: the command in a process of its own, and a real browser."""

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest

import punn
from browser import quiet_page
from punn import PUNNClassifier
from punn.persistence import save
from punn.readers import MNIST_MD5, data_folder
from punn.sources import learnable, read_source

HTML = "<img src=x onerror=alert(1)>"
BOLD = "<b>bold</b>"


@contextmanager
def explorer(*arguments, folder, listening):
    """The address of a running explorer, which must end cleanly with Ctrl-C."""
    line = [sys.executable, "-m", "punn", "explore", *map(str, arguments), "--no-browser", "--port", "0"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(line, cwd=folder, env=environment, **streams, **listening) as running:
        try:
            for text in running.stdout:
                if found := re.search(r"http://\S+", text):
                    yield found.group()
                    break
            else:
                raise AssertionError(running.stderr.read())
        finally:
            running.send_signal(signal.SIGINT)
            out, errors = running.communicate(timeout=60)
        assert running.returncode == 0, errors
        assert errors == ""
        assert out.endswith("ended\n")


@pytest.fixture(scope="module")
def hearing():
    return {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    examples = learnable(read_source("iris"), "class")
    model = PUNNClassifier("ellipsoid", restarts=1, epochs=150, random_state=0).fit(examples.X, examples.y)
    model.path = tmp_path_factory.mktemp("iris") / "iris.punn.safetensors"
    save(model, model.path, table=examples.columns.to_dict())
    return model


@pytest.fixture(scope="module")
def address(model, hearing):
    with explorer(model.path, "iris", folder=model.path.parent, listening=hearing) as address:
        yield address


@pytest.fixture(scope="module")
def bare(tmp_path_factory, hearing):
    """An explorer that was started without a model."""
    with explorer(folder=tmp_path_factory.mktemp("bare"), listening=hearing) as address:
        yield address


@pytest.fixture
def explore(page, address):
    page.goto(address)
    settled(page)
    return page


def settled(page):
    """Wait until the last question is answered."""
    page.wait_for_selector("#verdict .winner")
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(150)


def until(page, condition):
    """Wait; not by a script in the page, which its own policy forbids."""
    for _ in range(200):
        if condition():
            return
        page.wait_for_timeout(100)
    raise AssertionError("waited for too long")


def winner(page):
    return page.locator("#verdict .winner").inner_text()


def fields(page):
    return [float(field.input_value()) for field in page.locator("#values .field input").all()]


def field(page, name):
    return page.locator(".control", has_text=name).locator(".field input")


def slider(page, name):
    return page.locator(".control", has_text=name).locator("input[type=range]")


def probabilities(page):
    cells = page.locator("#probabilities .number").all_inner_texts()
    return [float(cell) for cell in cells]


def choose(page, menu, text):
    page.locator(f"#{menu}").click()
    page.locator(".dash-dropdown-option", has_text=re.compile(f"^{re.escape(text)}$")).click()


def check_answers(page, model):
    """All that the page shows is what the model says about the row in its fields."""
    settled(page)
    trace = model.trace(punn.features.as_table(model, np.array([fields(page)])))
    np.testing.assert_allclose(probabilities(page), trace.probabilities[0], atol=2e-3)
    assert winner(page) == trace.predicted[0]
    shown = page.locator("#trace tbody tr").all()
    assert [line.locator("th").inner_text() for line in shown] == trace.names
    for i, line in enumerate(shown):
        reached, gate, h = line.locator(".number").all_inner_texts()
        assert float(reached) == pytest.approx(trace.remaining[0, i], abs=2e-3)
        assert float(h) == pytest.approx(trace.partition[0, i], abs=2e-3)
        if gate not in ("rest", "–"):
            assert float(gate) == pytest.approx(trace.gates[0, i], abs=2e-3)
    ledger = [float(cell) for cell in page.locator("#ledger tbody tr td:nth-child(4)").all_inner_texts()]
    assert np.prod(ledger[:-1]) == pytest.approx(ledger[-1], abs=5e-3)


class TestRow:
    def test_it_opens_with_the_first_row_and_its_answers(self, explore, model):
        assert fields(explore) == [5.1, 3.5, 1.4, 0.2]
        assert explore.locator("h1:visible").inner_text() == "iris"
        check_answers(explore, model)

    def test_sliders_by_keyboard_and_mouse(self, explore, model):
        slide = slider(explore, "petal length")
        slide.focus()
        for _ in range(5):
            explore.keyboard.press("ArrowRight")
        assert fields(explore)[2] == pytest.approx(1.4 + 5 * 0.05)
        box = slide.bounding_box()
        explore.mouse.move(box["x"] + 20, box["y"] + box["height"] / 2)
        explore.mouse.down()
        for share in (0.3, 0.5, 0.7, 0.98):
            explore.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 2)
        explore.mouse.up()
        assert fields(explore)[2] > 6
        check_answers(explore, model)
        assert winner(explore) != "setosa"

    def test_fields_take_numbers_and_say_what_is_wrong_beside_them(self, explore, model):
        width = field(explore, "petal width")
        width.fill("1,9")
        field(explore, "petal length").fill("5.5")
        check = explore.locator(".control", has_text="petal width")
        message = check.locator(".message")
        until(explore, lambda: winner(explore) == "virginica")
        assert float(slider(explore, "petal width").input_value()) == pytest.approx(1.9, abs=0.02)
        settled(explore)
        before = probabilities(explore)
        width.fill("wide")
        until(explore, lambda: message.inner_text() == "expected a number, got wide")
        assert "bad" in check.locator(".field").first.get_attribute("class")
        width.fill("")
        until(explore, lambda: message.inner_text() == "expected a number")
        settled(explore)
        assert probabilities(explore) == before
        width.fill("9")
        until(explore, lambda: message.inner_text() == "beyond the training data")
        explore.wait_for_selector("#verdict .note")
        assert "petal width" in explore.locator("#verdict .note").inner_text()
        width.fill("1.9")
        until(explore, lambda: message.inner_text() == "")

    def test_presets(self, explore, model):
        explore.locator("#next").click()
        until(explore, lambda: explore.locator("#row").input_value() == "1")
        settled(explore)
        assert fields(explore) == [4.9, 3.0, 1.4, 0.2]
        assert explore.locator("#truth").inner_text() == "row 1: labelled setosa"
        explore.locator("#previous").click()
        until(explore, lambda: explore.locator("#row").input_value() == "0")
        explore.locator("#previous").click()
        until(explore, lambda: explore.locator("#row").input_value() == "149")
        explore.locator("#row").fill("100")
        explore.wait_for_selector("text=row 100: labelled virginica")
        settled(explore)
        assert fields(explore) == [6.3, 3.3, 6.0, 2.5]
        explore.locator("#row").fill("1000")
        explore.wait_for_selector("text=expected a row from 0 to 149")
        explore.locator("#doubtful").click()
        explore.wait_for_selector("#row-message:empty", state="attached")
        settled(explore)
        p = np.sort(probabilities(explore))
        assert p[-1] - p[-2] < 0.6
        check_answers(explore, model)
        explore.locator("#middle").click()
        until(explore, lambda: fields(explore) == [5.8, 3.0, 4.35, 1.3])


class TestMap:
    def place(self, page, x, y):
        """Pixels of a point of the map."""
        return page.evaluate(
            """([x, y]) => {
                const graph = document.querySelector("#map .js-plotly-plot");
                const {xaxis, yaxis} = graph._fullLayout;
                const box = graph.getBoundingClientRect();
                return [box.left + xaxis._offset + xaxis.d2p(x), box.top + yaxis._offset + yaxis.d2p(y)];
            }""",
            [x, y],
        )

    def point(self, page):
        return page.evaluate("(({x, y}) => [x[0], y[0]])(document.querySelector('#map .js-plotly-plot').data.at(-1))")

    def test_click_drag_and_arrow_keys_move_the_row(self, explore, model):
        explore.locator("#map-box").scroll_into_view_if_needed()
        assert self.point(explore) == [1.4, 0.2]
        explore.mouse.click(*self.place(explore, 4.5, 1.4))
        settled(explore)
        assert fields(explore)[:2] == [5.1, 3.5]
        np.testing.assert_allclose(fields(explore)[2:], [4.5, 1.4], atol=0.05)
        check_answers(explore, model)
        explore.mouse.down()
        for length in np.linspace(4.5, 6.0, 8):
            explore.mouse.move(*self.place(explore, length, 1.4 + 0.5 * (length - 4.5)))
        explore.mouse.up()
        settled(explore)
        np.testing.assert_allclose(fields(explore)[2:], [6.0, 2.15], atol=0.05)
        np.testing.assert_allclose(self.point(explore), fields(explore)[2:], atol=1e-4)
        check_answers(explore, model)
        explore.keyboard.press("ArrowLeft")
        explore.keyboard.press("ArrowUp")
        settled(explore)
        assert fields(explore)[2] < 5.95
        assert fields(explore)[3] > 2.16

    def test_other_features(self, explore):
        choose(explore, "map-x", "sepal length (cm)")
        explore.wait_for_selector("#map .xtitle:has-text('sepal length')")
        settled(explore)
        assert self.point(explore) == [5.1, 0.2]
        choose(explore, "map-y", "sepal length (cm)")
        explore.wait_for_selector("text=Choose two different columns.")
        choose(explore, "map-y", "sepal width (cm)")
        explore.wait_for_selector("#map .ytitle:has-text('sepal width')")
        settled(explore)
        ground = "JSON.stringify(document.querySelector('#map .js-plotly-plot').data[0].z)"
        before = explore.evaluate(ground)
        field(explore, "petal length").fill("5")
        until(explore, lambda: explore.evaluate(ground) != before)


class TestWhy:
    def test_the_ledger_of_another_class(self, explore, model):
        choose(explore, "ledger-class", "virginica")
        explore.wait_for_selector("#ledger .total:has-text('p(virginica)')")
        ledger = model.trace(punn.features.as_table(model, np.array([fields(explore)]))).ledger(0, "virginica")
        nats = explore.locator("#ledger tbody tr td:last-child").all_inner_texts()
        for text, row in zip(nats, [*(row.nats for row in ledger), ledger.total], strict=True):
            assert float(text) == pytest.approx(row, abs=2e-3)
        assert "Class virginica lost" in explore.locator("#ledger .why").inner_text()

    def test_make_it_another_class(self, explore, model):
        choose(explore, "wanted", "versicolor")
        explore.locator("#change").click()
        explore.wait_for_selector("#change-result table")
        found = model.counterfactual(np.array(fields(explore)), "versicolor", bounds=self.bounds(model))
        assert f"A change of {found.distance:.3g} standard deviations" in explore.locator("#change-result").inner_text()
        assert "setosa" in explore.locator("#change-result table").last.inner_text()
        explore.locator("#use").click()
        until(explore, lambda: winner(explore) == "versicolor")
        settled(explore)
        np.testing.assert_allclose(fields(explore), found.x_new, rtol=1e-5)
        assert explore.locator("#change-result").inner_text() == ""
        choose(explore, "wanted", "versicolor")
        explore.locator("#change").click()
        explore.wait_for_selector("text=The row is versicolor already")
        explore.get_by_text("stay within the training data").click()
        choose(explore, "wanted", "virginica")
        explore.locator("#change").click()
        explore.wait_for_selector("#change-result table")

    def bounds(self, model):
        return {f: (low, high) for f, (low, _, high) in enumerate(model.ranges_.tolist())}


class TestDownloads:
    def get(self, page, button, folder):
        with page.expect_download() as download:
            page.locator(f"#{button}").click()
        download.value.save_as(folder / download.value.suggested_filename)
        return folder / download.value.suggested_filename

    def test_model_report_and_python(self, explore, model, tmp_path, browser):
        path = self.get(explore, "get-model", tmp_path)
        assert path.name == "iris.punn.safetensors"
        X = learnable(read_source("iris"), "class").X
        np.testing.assert_array_equal(punn.load(path).predict_proba(X), model.predict_proba(X))
        code = self.get(explore, "get-code", tmp_path)
        ended = subprocess.run(
            [sys.executable, code], cwd=model.path.parent, capture_output=True, text=True, timeout=60
        )
        assert str(model.trace(X.iloc[:1])) in ended.stdout
        report = self.get(explore, "get-report", tmp_path)
        assert report.name == "iris.html"
        with quiet_page(browser) as page:
            page.goto(report.as_uri())
            assert "150 labelled rows" in page.locator("h1").first.inner_text()


class TestPage:
    def test_tabs_do_not_disturb_each_other(self, explore, address):
        other = explore.context.new_page()
        other.goto(address)
        settled(other)
        field(other, "petal length").fill("6")
        until(other, lambda: winner(other) != "setosa")
        explore.bring_to_front()
        field(explore, "sepal length").fill("5")
        settled(explore)
        assert fields(explore) == [5.0, 3.5, 1.4, 0.2]
        assert winner(explore) == "setosa"
        assert fields(other) == [5.1, 3.5, 6.0, 0.2]

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_a_narrow_screen(self, browser, address, bare, scheme):
        with quiet_page(browser, viewport={"width": 390, "height": 800}, color_scheme=scheme) as page:
            for place in (address, bare):
                page.goto(place)
                page.wait_for_selector("#verdict .winner, #train:not([hidden])")
                page.wait_for_load_state("networkidle")
                assert page.evaluate("document.documentElement.scrollWidth") <= 390
                assert page.evaluate("document.documentElement.dataset.theme") == scheme
            page.locator("#theme").click()
            until(page, lambda: page.evaluate("document.documentElement.dataset.theme") != scheme)

    def test_the_keyboard_reaches_everything(self, explore):
        reached = set()
        for _ in range(60):
            explore.keyboard.press("Tab")
            reached |= set(explore.evaluate("[document.activeElement.id, document.activeElement.type]"))
        wanted = {"go-explore", "go-train", "get-model", "get-report", "get-code", "theme", "row", "next", "doubtful"}
        assert wanted | {"middle", "range", "map-box", "map-x", "ledger-class", "wanted", "change"} <= reached

    def test_the_two_views(self, explore):
        explore.locator("#go-train").click()
        explore.wait_for_selector("text=Train a model")
        assert not explore.locator("#values").is_visible()
        explore.locator("#go-explore").click()
        explore.wait_for_selector("#values")


def drop(page, name, content="", size=0):
    """Drop a file on the page."""
    page.evaluate(
        """([name, content, size]) => {
            const data = new DataTransfer();
            data.items.add(new File([size ? new Uint8Array(size) : content], name, {type: "text/csv"}));
            const target = document.querySelector("#upload").firstElementChild || document.querySelector("#upload");
            for (const type of ["dragenter", "dragover", "drop"]) {
                target.dispatchEvent(new DragEvent(type, {bubbles: true, cancelable: true, dataTransfer: data}));
            }
        }""",
        [name, content, size],
    )


class TestTraining:
    def test_a_csv_with_html_in_its_names(self, page, bare):
        page.goto(bare)
        page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
        page.wait_for_selector("text=Train a model")
        assert page.locator("#go-explore").is_disabled()
        drop(page, "large.csv", size=20_000_001)
        page.wait_for_selector("text=large.csv has 20 MB, more than 20 MB")
        drop(page, "broken.csv", "a,b\n1,2\n1\n")
        page.wait_for_selector("text=broken.csv, line 3: expected 2 cells")
        rng = np.random.default_rng(0)
        lines = [f"{HTML},width,island,{BOLD}"]
        for i in range(60):
            label = HTML if i % 2 else BOLD
            island = ("Biscoe", HTML, "Dream")[i % 3]
            lines.append(f"{rng.normal(i % 2):.3f},{rng.normal(2 * (i % 2)):.3f},{island},{label}")
        drop(page, f"{HTML}.csv", "\n".join(lines))
        page.wait_for_selector(f"text={HTML}.csv: 60 rows, 4 columns.")
        assert page.locator("#target").inner_text().strip() == BOLD
        page.locator("#epochs").fill("many")
        page.locator("#fit").click()
        page.wait_for_selector("text=expected auto, or a whole number from 1 to 100,000")
        page.locator("#epochs").fill("20")
        choose(page, "gates", "ball")
        page.wait_for_selector("text=Every gate is a soft ball")
        page.locator("#fit").click()
        settled(page)
        assert winner(page) in (HTML, BOLD)
        assert page.locator("h1:visible").inner_text() == HTML
        names = page.locator("#values label").all_inner_texts()
        assert names == [HTML, "width", "island"]
        assert page.locator("#map .xtitle").text_content() in (HTML, "width")
        assert page.locator("#explore img, #explore b").count() == 0
        before = probabilities(page)
        page.locator(".control", has_text="island").locator(".dash-dropdown").click()
        page.locator(".dash-dropdown-option", has_text=HTML).click()
        until(page, lambda: probabilities(page) != before)
        choose(page, "wanted", HTML)
        page.locator("#change").click()
        page.wait_for_selector("#change-result .why")
        assert page.locator("#explore img, #explore b").count() == 0

    def test_digits_are_trained_stopped_and_drawn(self, page, bare):
        page.goto(bare)
        page.locator(".set", has_text="moons").click()
        page.wait_for_selector("text=moons: 1,000 rows, 3 columns.")
        choose(page, "gates", "ball")
        page.locator("#epochs").fill("5")
        page.locator("#fit").click()
        settled(page)
        # A second fit runs while the first model is explored.
        page.locator("#go-train").click()
        page.locator(".set", has_text="digits").click()
        page.wait_for_selector("text=digits: 1,797 rows, 65 columns")
        choose(page, "gates", "mlp")
        page.locator("#epochs").fill("90000")
        page.locator("#fit").click()
        page.wait_for_selector("text=/epoch \\d+ of 90000/")
        page.locator("#go-explore").click()
        field(page, "x").fill("1.5")
        settled(page)
        assert fields(page)[0] == 1.5
        page.locator("#go-train").click()
        until(page, lambda: int(page.locator("#progress-told").inner_text().split()[1]) > 6)
        page.locator("#stop").click()
        page.wait_for_selector("#canvas")
        settled(page)
        self.draw(page)

    def draw(self, page):
        """With the mouse, with the keyboard, from a row; the answer follows."""
        before = page.locator("#trace").inner_text()
        box = page.locator("#canvas").bounding_box()
        x, y, side = box["x"], box["y"], box["width"]
        page.mouse.move(x + side / 2, y + 0.1 * side)
        page.mouse.down()
        for share in (0.3, 0.5, 0.7, 0.9):
            page.mouse.move(x + side / 2, y + share * side)
        page.mouse.up()
        until(page, lambda: page.locator("#trace").inner_text() != before)
        settled(page)
        stroke = page.locator("#trace").inner_text()
        page.locator("#clear").click()
        until(page, lambda: page.locator("#trace").inner_text() != stroke)
        settled(page)
        blank = page.locator("#trace").inner_text()
        page.locator("#canvas").focus()
        for _ in range(12):
            page.keyboard.press("Shift+ArrowDown")
        until(page, lambda: page.locator("#trace").inner_text() != blank)
        page.locator("#row").fill("4")
        page.wait_for_selector("text=row 4: labelled 4")
        until(page, lambda: winner(page) == "4")
        choose(page, "wanted", "9")
        page.locator("#change").click()
        page.wait_for_selector("#change-result img")
        assert page.locator("#change-result img").count() == 3


@pytest.mark.skipif(
    not all(any(data_folder().glob(f"mnist/{name}*")) for name in MNIST_MD5), reason="needs punn data mnist"
)
def test_the_demo_reads_a_digit_that_is_drawn(page, tmp_path, hearing):
    with explorer("mnist-demo", folder=tmp_path, listening=hearing) as address:
        page.goto(address)
        settled(page)
        assert winner(page) == "7"  # the first of the test images
        box = page.locator("#canvas").bounding_box()
        x, y, side = box["x"], box["y"], box["width"]
        turns = np.linspace(0, 2 * np.pi, 30)
        circle = [(x + side * (0.5 + 0.25 * np.sin(t)), y + side * (0.5 - 0.38 * np.cos(t))) for t in turns]
        page.mouse.move(*circle[0])
        page.mouse.down()
        for point in circle:
            page.mouse.move(*point)
        page.mouse.up()
        until(page, lambda: winner(page) == "0")
        settled(page)
        assert float(page.locator("#probabilities .won .number").inner_text()) > 0.8


def test_ctrl_c_ends_a_fit_too(page, tmp_path, hearing):
    with explorer("iris", folder=tmp_path, listening=hearing) as address:
        page.goto(address)
        page.wait_for_selector("text=iris: 150 rows")
        choose(page, "gates", "ball")  # of few rows none are held out that could end it early
        page.locator("#epochs").fill("90000")
        page.locator("#fit").click()
        page.wait_for_selector("text=/epoch \\d+ of 90000/")
        page.goto("about:blank")
