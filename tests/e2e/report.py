"""dtrun report: one page that asks for nothing from elsewhere, of one run or several, of a run that was killed; and what is no run."""
import html.parser
import os
import re
import signal
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

OTHER = """
use nn, losses, optimizers
data rows = idx("images.gz", "labels.gz") | batch(50)
model Net(image: u8[B, 12, 12]) -> f32[B, 10] { return dense(flatten(f32(image) / 255), units: 10) }
step train(image: u8[B, 12, 12], label: u8[B]) from rows {
    distance = sparse_categorical_crossentropy(label, Net(image))
    minimize(distance, sgd(learning_rate: 0.1))
    report distance: mean(distance)
}
"""
VOID = {"meta", "img", "br", "wbr"}
data, program = write_data(), compile_program()
page = FOLDER / "page.html"


class Page(html.parser.HTMLParser):
    """What a page holds; its elements must nest."""

    def __init__(self, path):
        super().__init__()
        self.open, self.tags, self.text, self.sources = [], [], "", []
        self.content = path.read_text()
        self.feed(self.content)
        check(self.open == [], f"not closed: {self.open}")

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.sources += [value for name, value in attributes if name in ("src", "href", "srcset", "data", "action")]
        check(not any(name.startswith("on") for name, _ in attributes), attributes)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.open.pop()

    def handle_endtag(self, tag):
        check(self.open and self.open[-1] == tag, f"</{tag}> in {self.open}")
        self.open.pop()

    def handle_data(self, text):
        self.text += text if self.open and self.open[-1] not in ("style", "script") else ""


def make(*folders):
    done = subprocess.run(["dtrun", "report", *folders, "-o", page], capture_output=True, text=True)
    check(done.returncode == 0 and done.stdout == done.stderr == "", done)
    made = Page(page)
    check(all(source.startswith("data:image/png;base64,") for source in made.sources), made.sources)
    check(made.tags.count("script") == 1 and "link" not in made.tags, made.tags)
    check(re.search(r"https?:|url\(|@import", made.content) is None, "something is fetched")
    return made


FLAGS = ("--data", data, "--log-every", 2)
run = Run("train", program, *FLAGS, "--epochs", 2, "--seed", 5, "--replicas", 2, "--devices", "cpu:2x1", "--log-dir", FOLDER / "first")
Run("train", compile_program(OTHER, "other"), *FLAGS, "--epochs", 1, "--log-dir", FOLDER / "<b>second & third")

# one run
made = make(FOLDER / "first")
loss = run.one("epoch", step="evaluate", epoch=2)["loss"]
for wanted in ("net", "finished", "loss", "accuracy", "examples per second", "Net/dense", "optimizer", "net.dt:", "parameters", "cpu:0, cpu:1", "dtc 0.",
               "use nn, losses, optimizers", f"{loss:.4f}" if loss < 1 else f"{loss:.3f}"):
    check(wanted in made.text, f"{wanted} is not on the page: {made.text}")
curves = re.findall(r'data-name="([^"]*)" data-points="([^"]*)"', made.content)
check(dict(curves).keys() == {"train", "evaluate", "train, steps"}, curves)
steps = [point.split(",") for point in next(points for name, points in curves if name == "train, steps").split(" ")]
check([(int(step), round(float(value), 4)) for _, step, value in steps] == [(e["number"], round(e["loss"], 4)) for e in run.all("step")], steps)

# two whose reports differ; the name of a folder is no markup
made = make(FOLDER / "first", FOLDER / "<b>second & third")
check("<b>second & third" in made.text and "distance" in made.text and "2 runs" in made.text, made.text)
check(made.tags.count("figure") == 4, made.tags)  # loss, accuracy, distance, examples per second

# one that is killed while it writes
process = subprocess.Popen(command("train", program, *FLAGS, "--epochs", 10 ** 6, "--log-every", 1, "--log-dir", FOLDER / "killed"),
                           stdout=subprocess.PIPE, text=True)
for line in process.stdout:
    if '"number":20' in line:
        process.send_signal(signal.SIGKILL)
        break
process.stdout.read()
process.wait()
with open(FOLDER / "killed/run.jsonl", "a") as lines:
    lines.write('{"time":12345678')
made = make(FOLDER / "killed")
check("goes on, or was killed" in made.text and "left out" not in made.text, made.text)

# what is no run
(FOLDER / "empty").mkdir()
for flags, code, wanted in (((), 2, "which runs?"), ((FOLDER / "none",), 1, f"{FOLDER}/none: there is no such folder"),
                            ((FOLDER / "first", FOLDER / "empty"), 1, f"{FOLDER}/empty: holds no run.jsonl: name a folder that `dtrun train --log-dir`"),
                            ((FOLDER / "first", "-o", FOLDER / "none/page.html"), 1, f"{FOLDER}/none/page.html")):
    done = subprocess.run(["dtrun", "report", *flags], capture_output=True, text=True, cwd=FOLDER)
    check(done.returncode == code and wanted in done.stderr and not (FOLDER / "report.html").exists(), done)

finish()
